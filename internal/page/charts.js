// Drawing: stacked areas, lines and a heat map, from the rows of the history.

// svg makes an element of a picture.
function svg(name, attributes, text) {
	const element = document.createElementNS('http://www.w3.org/2000/svg', name);
	for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
	if (text !== undefined) element.textContent = text;
	return element;
}

// frame is where a picture is drawn: its size, and the time along it.
function frame(picture) {
	const box = picture.svg.getBoundingClientRect();
	const oldest = Math.min(state.seconds[0]?.from ?? state.now, state.windows[0]?.from ?? state.now);
	const from = state.now - Math.min(span, Math.max(shortest, state.now - oldest));
	const f = {left: 58, right: box.width - 8, top: picture.verdicts ? 30 : 14, bottom: box.height - 24, from, to: state.now};
	f.x = (time) => f.left + (Math.min(Math.max(time, from), f.to) - from) / (f.to - from) * (f.right - f.left);
	f.time = (x) => from + (x - f.left) / (f.right - f.left) * (f.to - from);
	f.shown = (rows) => rows.filter((row) => row.to > from);
	return f;
}

// drawTimes draws the axis of time and the gaps.
function drawTimes(picture, f) {
	const room = Math.max(2, (f.right - f.left) / 90);
	const step = [10, 30, 60, 120, 300, 600].find((s) => (f.to - f.from) / 1000 / s <= room) * 1000;
	for (let time = Math.ceil(f.from / step) * step; time <= f.to; time += step) {
		const x = f.x(time);
		picture.svg.append(svg('line', {class: 'grid', x1: x, x2: x, y1: f.bottom, y2: f.bottom + 5}));
		if (x > f.left + 16 && x < f.right - 24) {
			picture.svg.append(svg('text', {x, y: f.bottom + 18, 'text-anchor': 'middle'}, clock(time, step < 60_000)));
		}
	}
	for (const row of f.shown(state.seconds).filter((row) => row.gap)) {
		const x = f.x(row.from);
		const gap = svg('rect', {class: 'gap', x, y: f.top, width: Math.max(1, f.x(row.to) - x), height: f.bottom - f.top});
		gap.append(svg('title', {}, `The process did not get to run: no samples for up to ${duration(row.length_seconds)}.`));
		picture.svg.append(gap);
	}
}

// scale draws the axis of values from 0 to a round number over the greatest, and
// returns how a value becomes a height.
function scale(picture, f, greatest) {
	const unit = picture.binary ? 1024 ** Math.floor(Math.log2(Math.max(1, greatest)) / 10) : 1;
	const steps = f.bottom - f.top > 160 ? 4 : 2;
	const rough = Math.max(greatest, picture.least ?? 1) / unit / steps;
	const power = 10 ** Math.floor(Math.log10(rough));
	const step = [1, 2, 2.5, 5, 10].find((n) => n * power >= rough * 0.999) * power * unit;
	const y = (value) => f.bottom - value / (step * steps) * (f.bottom - f.top);
	for (let i = 0; i <= steps; i++) {
		picture.svg.append(svg('line', {class: 'grid', x1: f.left, x2: f.right, y1: y(i * step), y2: y(i * step)}));
		const label = i === 0 ? '0' : picture.unit(i * step) + (picture.axis ?? '');
		picture.svg.append(svg('text', {x: f.left - 7, y: y(i * step) + 4, 'text-anchor': 'end'}, label));
	}
	return y;
}

// stretches cuts rows where nobody sampled in between, and leaves the gaps out.
function stretches(rows) {
	const all = [];
	let before = null;
	for (const row of rows) {
		if (!row.gap) {
			if (!before || before.gap || row.from - before.to > hole) all.push([]);
			last(all).push(row);
		}
		before = row;
	}
	return all;
}

// steps is a path along the values of rows, each of which holds for all of its row.
function steps(rows, f, y) {
	let path = '';
	let on = false;
	for (const row of rows) {
		const height = y(row);
		if (height !== null) path += `${on ? 'V' : `M${f.x(row.from).toFixed(1)} `}${height.toFixed(1)}H${f.x(row.to).toFixed(1)}`;
		on = height !== null;
	}
	return path;
}

// cut returns the greatest value that is worth the scale: a few that tower over
// all others, such as the waits for a mutex that was held for minutes and is let
// go, would leave the rest flat.
function cut(values) {
	const sorted = values.toSorted((a, b) => a - b);
	const usual = 4 * (sorted[Math.floor(0.9 * sorted.length)] ?? 0);
	return usual > 0 ? Math.min(last(sorted), usual) : last(sorted) ?? 0;
}

function drawStack(picture, f) {
	const rows = f.shown(picture.rows());
	const series = picture.series();
	const limit = picture.limit;
	const total = (row) => sum(series.map((s) => s.value(row) ?? 0));
	const greatest = Math.max(0, ...rows.map(total));
	const most = cut(rows.map(total));
	const full = scale(picture, f, Math.max(most, ...rows.map((row) => (limit ? limit.value(row) : 0))));
	const y = (value) => Math.max(f.top, full(value));
	for (const stretch of stretches(rows)) {
		const below = new Map(stretch.map((row) => [row, 0]));
		for (const s of series) {
			const bottom = steps([...stretch].reverse().map((row) => ({from: row.to, to: row.from, height: y(below.get(row))})), f, (row) => row.height);
			for (const row of stretch) below.set(row, below.get(row) + (s.value(row) ?? 0));
			if (stretch.every((row) => !s.value(row))) continue;
			const top = steps(stretch, f, (row) => y(below.get(row)));
			picture.svg.append(svg('path', {class: `area c-${s.name}`, d: `${top}L${bottom.slice(1)}Z`}));
		}
		if (limit) {
			picture.svg.append(svg('path', {class: `line dashed c-${limit.name}`, d: steps(stretch, f, (row) => y(limit.value(row)))}));
		}
		if (picture.verdicts) {
			for (const row of stretch) {
				const x = f.x(row.from);
				picture.svg.append(svg('rect', {class: `band c-${row.verdict}`, x, y: 3, width: Math.max(1, f.x(row.to) - x), height: 9}));
			}
		}
	}
	if (picture.verdicts) picture.svg.append(svg('text', {x: f.left - 7, y: 12, 'text-anchor': 'end'}, 'verdict'));
	if (greatest > most) {
		const row = rows.find((r) => total(r) === greatest);
		const x = f.x((row.from + row.to) / 2);
		const anchor = x > (f.left + f.right) / 2 ? 'end' : 'start';
		picture.svg.append(svg('text', {class: 'cut', x, y: f.top + 12, 'text-anchor': anchor}, `▲ ${picture.unit(greatest)}${picture.axis ?? ''}`));
	}
	const seen = series.filter((s) => rows.some((row) => s.value(row) > 0.004));
	picture.read = (row) => [
		...(picture.verdicts ? [{name: 'verdict', text: row.verdict, color: row.verdict}] : []),
		...seen.reverse().map((s) => ({name: s.name, text: picture.unit(s.value(row)) + (picture.axis ?? ''), color: s.name})),
		...(seen.length === 0 ? [{name: 'nothing so far'}] : []),
		...(limit ? [{name: limit.name, text: picture.unit(limit.value(row)), color: limit.name, dash: 'stroke dashed'}] : []),
	];
}

function drawLines(picture, f) {
	const rows = f.shown(picture.rows());
	const series = picture.series();
	const values = rows.filter((row) => !row.gap).flatMap((row) => series.map((s) => s.value(row) ?? 0));
	const y = scale(picture, f, Math.max(0, ...values));
	for (const stretch of stretches(rows)) {
		for (const s of series) {
			const d = steps(stretch, f, (row) => (s.value(row) === null ? null : y(s.value(row))));
			if (d) picture.svg.append(svg('path', {class: `line ${s.dash ?? ''} c-${s.color}`, d}));
		}
	}
	picture.read = (row) => series.map((s) => ({
		name: s.name, text: s.value(row) === null ? '–' : picture.unit(s.value(row)) + (picture.axis ?? ''),
		color: s.color, dash: `stroke ${s.dash ?? ''}`,
	}));
}

// merged adds up the samples of rows.
function merged(rows) {
	const lag = state.lagEdges.map(() => 0).concat(0);
	for (const row of rows) row.lag.forEach((n, i) => { lag[i] += n; });
	return {from: rows[0].from, to: last(rows).to, lag, longest: Math.max(...rows.map((row) => row.longest_lag_seconds))};
}

// quantile is the bound that a share of the samples keeps to: the upper edge of
// a bucket, or the longest lag if that is less.
function quantile(cell, share) {
	let rank = Math.ceil(share * sum(cell.lag));
	const bucket = cell.lag.findIndex((n) => (rank -= n) <= 0);
	return Math.min(state.lagEdges[bucket] ?? cell.longest, cell.longest);
}

function drawHeat(picture, f) {
	const edges = state.lagEdges;
	const rows = f.shown(picture.rows());
	const height = (f.bottom - f.top) / (edges.length + 1);
	// The rows have the same height, as their edges grow by about the same factor.
	const y = (lag) => {
		const row = edges.findIndex((edge) => lag <= edge);
		if (row < 0) return f.bottom - (edges.length + 1 - last(edges) / lag) * height;
		const lower = row === 0 ? 0 : edges[row - 1];
		return f.bottom - (row + (lag - lower) / (edges[row] - lower)) * height;
	};
	edges.forEach((edge, i) => {
		if (![0.0001, 0.001, 0.01, 0.1, 1, 5].includes(edge)) return;
		const at = f.bottom - (i + 1) * height;
		picture.svg.append(svg('line', {class: 'grid', x1: f.left, x2: f.right, y1: at, y2: at}));
		picture.svg.append(svg('text', {x: f.left - 7, y: at + 4, 'text-anchor': 'end'}, duration(edge)));
	});
	const widest = (f.to - f.from) / Math.max(30, (f.right - f.left) / 5);
	const width = [1, 2, 5, 10, 30].find((s) => s * 1000 >= widest) * 1000;
	const bins = new Map();
	for (const row of rows) {
		const bin = row.gap ? `gap ${row.number}` : Math.floor((row.to - 1) / width);
		bins.set(bin, [...(bins.get(bin) ?? []), row]);
	}
	const cells = [...bins.values()].map(merged);
	for (const cell of cells) {
		const samples = sum(cell.lag);
		const x = f.x(cell.from);
		cell.lag.forEach((n, i) => {
			if (n === 0) return;
			picture.svg.append(svg('rect', {
				class: 'cell', 'fill-opacity': (0.2 + 0.8 * Math.sqrt(n / samples)).toFixed(2),
				x, y: f.bottom - (i + 1) * height, width: Math.max(1, f.x(cell.to) - x), height,
			}));
		});
	}
	const marks = [
		{name: 'p50', at: (cell) => quantile(cell, 0.5), bound: '≤ '},
		{name: 'p99', at: (cell) => quantile(cell, 0.99), bound: '≤ ', dash: 'dashed'},
		{name: 'longest', at: (cell) => cell.longest, bound: '', dash: 'dotted'},
	];
	for (const mark of marks) {
		for (const stretch of stretches(cells)) {
			picture.svg.append(svg('path', {class: `line ${mark.dash ?? ''} c-${mark.name}`, d: steps(stretch, f, (cell) => y(mark.at(cell)))}));
		}
	}
	picture.read = (row) => {
		const minute = state.cursor === null ? rows.filter((r) => r.to > row.to - 60_000) : [row];
		const cell = merged(minute);
		return [
			{name: state.cursor === null ? 'in the last minute' : `of ${sum(cell.lag)} samples`},
			...marks.map((mark) => ({name: mark.name, text: mark.bound + duration(mark.at(cell)), color: mark.name, dash: `stroke ${mark.dash ?? ''}`})),
		];
	};
}
