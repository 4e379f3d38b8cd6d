// When a picture is drawn, and reading its values at the cursor.

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
