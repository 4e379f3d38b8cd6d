'use strict';
// The script of the live page. Every second the server sends what is new; the
// pictures are drawn from the history that is kept here. There are four kinds:
// stacked areas, lines, a heat map, and tables.

const span = 10 * 60_000; // what is kept and shown at most, in milliseconds
const shortest = 60_000; // what is shown at least
const hole = 1_500; // between two rows of the history: from here on nobody sampled

const state = {
	now: 0, // the server's clock at the last message, in milliseconds
	heard: 0, // this page's clock at that time
	seconds: [],
	windows: [],
	causes: [],
	lagEdges: [], // in seconds
	cursor: null, // the time that is read, or null for the present
	verdict: null,
};

const byId = (id) => document.getElementById(id);
const last = (list) => list[list.length - 1];
const sum = (list) => list.reduce((total, n) => total + n, 0);

// --- what comes from the server ---

function listen() {
	const events = new EventSource('?format=events');
	events.addEventListener('whole', (event) => {
		const message = JSON.parse(event.data);
		state.seconds = [];
		state.windows = [];
		state.causes = message.causes;
		state.lagEdges = message.history.lag_boundaries_seconds ?? [];
		take(message);
	});
	events.addEventListener('message', (event) => take(JSON.parse(event.data)));
	events.addEventListener('error', () => {
		if (events.readyState === EventSource.CLOSED) { // it does not come back by itself
			events.close();
			setTimeout(listen, 3_000);
		}
	});
}

function take(message) {
	state.now = Date.parse(message.now);
	state.heard = performance.now();
	append(state.seconds, message.history.seconds);
	append(state.windows, message.history.windows);
	showVerdict(message);
	showFindings(message);
	showOldest(message.oldest);
	showCaptures(message.captures);
	showDriver();
	showStatus();
	drawAll();
}

// append adds rows that are new, and forgets those that are too old. Where the
// server's clock was set back, the newer rows hold.
function append(rows, more) {
	for (const row of more) {
		if (rows.length > 0 && row.number <= last(rows).number) continue;
		row.to = Date.parse(row.at);
		row.from = row.to - row.length_seconds * 1000;
		while (rows.length > 0 && last(rows).to >= row.to) rows.pop();
		rows.push(row);
	}
	while (rows.length > 0 && rows[0].to < state.now - span) rows.shift();
}

// --- numbers as people read them ---

function count(n) {
	if (n === null || n === undefined) return 'not measured';
	const size = Math.abs(n);
	if (size >= 1e6) return trim(n / 1e6) + ' M';
	if (size >= 1e4) return trim(n / 1e3) + ' k';
	return trim(n);
}

// trim keeps about three digits, and no zeros at the end.
function trim(n) {
	const size = Math.abs(n);
	return String(Number(n.toFixed(size >= 99.5 ? 0 : size >= 9.95 ? 1 : 2)));
}

function duration(seconds) {
	if (seconds === null || seconds === undefined) return 'not measured';
	if (seconds === 0) return '0';
	if (seconds < 0.001) return trim(seconds * 1e6) + ' µs';
	if (seconds < 1) return trim(seconds * 1e3) + ' ms';
	if (seconds < 120) return trim(seconds) + ' s';
	if (seconds < 7200) return trim(seconds / 60) + ' min';
	return trim(seconds / 3600) + ' h';
}

function bytes(n) {
	if (n === null || n === undefined) return 'not measured';
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
	let unit = 0;
	for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
	return trim(n) + ' ' + units[unit];
}

function percent(share) {
	return share === null || share === undefined ? 'not measured' : trim(share * 100) + ' %';
}

function clock(time, withSeconds) {
	const second = withSeconds ? '2-digit' : undefined;
	return new Date(time).toLocaleTimeString([], {hour: '2-digit', minute: '2-digit', second, hourCycle: 'h23'});
}

// --- the pictures ---

const rate = (row, n) => n / row.length_seconds;
const ofDriver = (value) => (row) => (row.driver ? value(row.driver, row) : null);

const pictures = {
	load: {
		draw: drawStack, rows: () => state.windows, unit: count, verdicts: true,
		series: () => state.causes.filter((c) => !c.share).map(({cause}) => ({name: cause, value: (w) => w.load[cause]})),
		limit: {name: 'processors', value: (w) => w.processors},
	},
	lag: {draw: drawHeat, rows: () => state.seconds, unit: duration},
	requests: {
		draw: drawLines, rows: () => state.seconds, unit: count,
		series: () => [
			{name: 'served here', color: 'first', value: (s) => s.in_flight},
			{name: 'outbound, waiting for an answer', color: 'second', dash: 'dashed', value: (s) => s.outbound},
		],
	},
	responses: {
		draw: drawStack, rows: () => state.seconds, unit: count, axis: '/s',
		series: () => ['5xx', '4xx', '3xx', '1xx', 'other', '2xx'].map((name) => ({name, value: (s) => rate(s, s.responses[name])})),
	},
	cpu: {
		draw: drawLines, rows: () => state.windows, unit: count,
		series: () => [
			{name: 'processors used', color: 'first', value: (w) => w.cpu},
			{name: 'may be used', color: 'cpus', dash: 'dashed', value: (w) => w.cpus},
		],
	},
	memory: {
		draw: drawLines, rows: () => state.windows, unit: bytes, binary: true,
		series: () => [{name: 'resident', color: 'first', value: (w) => w.memory_bytes}],
	},
	pauses: {
		draw: drawLines, rows: () => state.seconds, unit: duration, least: 0.001,
		series: () => [
			{name: 'longest in each second', color: 'first', value: (s) => s.longest_pause_seconds},
			{name: 'all of them, a second', color: 'second', dash: 'dashed', value: (s) => rate(s, s.paused_seconds)},
		],
	},
	collector: {
		draw: drawLines, rows: () => state.windows, unit: percent, least: 0.25,
		series: () => [{name: 'collector', color: 'gc', value: (w) => (w.load.gc === null ? null : w.load.gc / w.processors)}],
	},
	threads: {
		draw: drawLines, rows: () => state.windows, unit: count,
		series: () => [{name: 'threads', color: 'first', value: (w) => w.threads}],
	},
	descriptors: {
		draw: drawLines, rows: () => state.windows, unit: count,
		series: () => [{name: 'descriptors', color: 'first', value: (w) => w.descriptors}],
	},
	rollouts: {
		draw: drawLines, rows: () => state.seconds, unit: count,
		series: () => [
			{name: 'resident', color: 'first', value: ofDriver((d) => d.resident)},
			{name: 'active', color: 'third', dash: 'dashed', value: ofDriver((d) => d.active)},
			{name: 'waiting for admission', color: 'second', dash: 'dotted', value: ofDriver((d) => d.waiting)},
		],
	},
	offered: {
		draw: drawLines, rows: () => state.seconds, unit: count, axis: '/s',
		series: () => [
			{name: 'offered', color: 'first', value: ofDriver((d, s) => rate(s, d.offered))},
			{name: 'admitted', color: 'third', dash: 'dashed', value: ofDriver((d, s) => rate(s, d.admissions))},
		],
	},
	admission: {
		draw: drawLines, rows: () => state.seconds, unit: duration, least: 0.001,
		series: () => [{
			name: 'mean wait of those admitted', color: 'second',
			value: ofDriver((d) => (d.admissions === 0 ? null : d.waited_seconds / d.admissions)),
		}],
	},
};

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

// --- drawing, and reading at the cursor ---

function draw(picture) {
	picture.svg.replaceChildren();
	picture.frame = frame(picture);
	drawTimes(picture, picture.frame);
	picture.draw(picture, picture.frame);
	picture.cursor = svg('line', {class: 'cursor', y1: picture.frame.top, y2: picture.frame.bottom});
	picture.svg.append(picture.cursor);
	read(picture);
}

// read shows the values at the cursor, or the present ones.
function read(picture) {
	if (!picture.frame) return;
	const row = rowAt(picture, state.cursor);
	const x = state.cursor === null ? -1 : picture.frame.x(state.cursor);
	picture.cursor.setAttribute('x1', x);
	picture.cursor.setAttribute('x2', x);
	const items = row ? picture.read(row) : [{name: state.cursor === null ? 'nothing is measured yet' : 'nothing was measured then'}];
	if (row && state.cursor !== null) items.unshift({name: clock(row.to, true) + (row.gap ? ', after a gap' : ''), when: true});
	picture.legend.replaceChildren(...items.map(({name, text, color, dash, when}) => {
		const item = document.createElement('li');
		if (when) item.className = 'when';
		if (color) {
			const swatch = document.createElement('span');
			swatch.className = `swatch c-${color} ${dash ?? ''}`;
			item.append(swatch);
		}
		item.append(text === undefined ? name : `${name} `);
		if (text !== undefined) {
			const value = document.createElement('b');
			value.textContent = text;
			item.append(value);
		}
		return item;
	}));
	picture.words = items.map(({name, text}) => (text === undefined ? name : `${name} ${text}`)).join(', ');
	picture.svg.setAttribute('aria-label', `${picture.title}: ${picture.words}`);
}

function rowAt(picture, time) {
	const rows = picture.rows();
	return time === null ? last(rows) : rows.find((row) => row.from <= time && time <= row.to);
}

const visible = () => Object.values(pictures).filter((picture) => picture.visible);

function drawAll() {
	if (!document.hidden && state.now > 0) visible().forEach(draw);
}

function moveCursor(time) {
	state.cursor = time;
	visible().forEach(read);
}

// onKey moves the cursor along a picture that has the focus, and says what is there.
function onKey(picture, event) {
	if (!picture.frame || event.altKey || event.ctrlKey || event.metaKey) return;
	const {from, to} = picture.frame;
	const step = (to - from) / (event.shiftKey ? 10 : 60);
	const moves = {
		ArrowLeft: () => Math.max(from, (state.cursor ?? to) - step),
		ArrowRight: () => (state.cursor === null || state.cursor + step > to ? null : state.cursor + step),
		Home: () => from,
		End: () => null, Escape: () => null,
	};
	if (!moves[event.key]) return;
	event.preventDefault();
	moveCursor(moves[event.key]());
	byId('reading').textContent = picture.words;
}

// --- the verdict and the tables ---

function showVerdict(message) {
	const verdict = message.verdict || (state.windows.length > 0 ? 'none' : 'no verdict yet');
	const advice = message.findings.find((f) => f.cause === message.verdict)?.advice ?? '';
	const prefix = message.verdict ? `${message.verdict}: ` : '';
	const told = message.summary.replace(prefix, '').replace(advice, '').trim();
	byId('verdict').className = message.verdict ? `c-${message.verdict}` : '';
	byId('verdict-name').textContent = verdict;
	byId('evidence').textContent = told.charAt(0).toUpperCase() + told.slice(1);
	byId('advice').textContent = advice;
	const windows = state.windows.findLastIndex((w) => w.verdict !== message.verdict);
	const since = state.windows[windows + 1];
	byId('verdict-since').textContent = since ? `since ${clock(since.from, true)}` : '';
	document.title = `${verdict} – ${byId('process').textContent}`;
	if (state.verdict !== verdict) {
		state.verdict = verdict;
		byId('announcement').textContent = `Verdict: ${verdict}. ${told} ${advice}`;
	}
}

// fill writes rows of cells into a table; a cell is text or a list of elements.
function fill(table, rows) {
	table.tBodies[0].replaceChildren(...rows.map((cells) => {
		const tr = document.createElement('tr');
		cells.forEach((cell, i) => {
			const td = document.createElement(i === 0 ? 'th' : 'td');
			if (i === 0) td.scope = 'row';
			if (table.tHead.rows[0].cells[i].classList.contains('number')) td.className = 'number';
			td.append(...(Array.isArray(cell) ? cell : [cell]));
			tr.append(td);
		});
		return tr;
	}));
	table.hidden = rows.length === 0;
}

function showFindings({findings, unmeasured}) {
	const isShare = (cause) => state.causes.some((c) => c.cause === cause && c.share);
	const idle = findings.filter((f) => !isShare(f.cause) && f.load < 0.005);
	fill(byId('findings'), findings.filter((f) => !idle.includes(f)).map((f) => {
		const swatch = document.createElement('span');
		swatch.className = `swatch c-${f.cause}`;
		return [[swatch, f.cause], isShare(f.cause) ? percent(f.load) : count(f.load), f.evidence, f.advice];
	}));
	byId('idle').textContent = idle.length > 0 ? `Nothing waited for: ${idle.map((f) => f.cause).join(', ')}.` : '';
	byId('unmeasured').textContent = unmeasured.length > 0 ? `Not measured here, or in this window: ${unmeasured.join(', ')}.` : '';
}

function showOldest(oldest) {
	fill(byId('oldest'), oldest.map((w) => [w.kind, w.name || '–', duration(w.age_seconds)]));
	byId('no-oldest').hidden = oldest.length > 0;
}

function showCaptures(captures) {
	if (state.captures === JSON.stringify(captures)) return; // else a link would lose the focus
	state.captures = JSON.stringify(captures);
	fill(byId('captures'), captures.map((c) => [
		`${new Date(c.at).toLocaleDateString()} ${clock(c.at, true)}`, c.reason,
		c.files.map((file) => {
			const link = document.createElement('a');
			link.href = `?capture=${encodeURIComponent(`${c.name}/${file.name}`)}`;
			link.textContent = `${file.name} (${bytes(file.bytes)})`;
			return link;
		}),
	]));
	byId('no-captures').hidden = captures.length > 0;
}

function showDriver() {
	const drives = state.seconds.some((s) => s.driver);
	byId('no-driver').hidden = drives;
	for (const name of ['rollouts', 'offered', 'admission']) byId(name).hidden = !drives;
}

function showStatus() {
	const silent = (performance.now() - state.heard) / 1000;
	const status = byId('status');
	const words = silent > 4
		? `No word for ${Math.floor(silent)} s: the process, or the way to it, does not answer`
		: state.seconds.length > 0 ? 'Live' : 'Connected; nothing is sampled yet';
	if (status.textContent !== words) status.textContent = words;
	status.className = silent > 4 ? 'silent' : 'live';
}

// --- the beginning ---

const seen = new IntersectionObserver((entries) => {
	for (const {target, isIntersecting} of entries) pictures[target.id].visible = isIntersecting;
	drawAll();
});

for (const [id, picture] of Object.entries(pictures)) {
	const figure = byId(id);
	picture.title = figure.querySelector('h3').textContent;
	picture.svg = figure.querySelector('svg');
	picture.legend = figure.querySelector('.legend');
	figure.addEventListener('keydown', (event) => onKey(picture, event));
	picture.svg.addEventListener('pointermove', (event) => {
		if (!picture.frame) return;
		const x = event.clientX - picture.svg.getBoundingClientRect().left;
		moveCursor(x < picture.frame.left || x > picture.frame.right ? null : picture.frame.time(x));
	});
	picture.svg.addEventListener('pointerleave', () => moveCursor(null));
	seen.observe(figure);
}
document.addEventListener('visibilitychange', drawAll);
addEventListener('resize', drawAll);
setInterval(() => { if (state.heard > 0) showStatus(); }, 1_000);
listen();
