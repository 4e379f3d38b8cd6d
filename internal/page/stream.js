// What comes from the server every second, the history that is kept of it, and
// the beginning of it all. It stands last in the script.

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
	process: '', // its name and number
};

const byId = (id) => document.getElementById(id);
const last = (list) => list[list.length - 1];
const sum = (list) => list.reduce((total, n) => total + n, 0);

function listen() {
	const events = new EventSource('?format=events');
	events.addEventListener('whole', (event) => {
		const message = JSON.parse(event.data);
		state.seconds = [];
		state.windows = [];
		state.causes = message.causes;
		state.lagEdges = message.history.lag_boundaries_seconds ?? [];
		showText(message);
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
	showAlso(message.also);
	showSites(message.sites, message.verdict);
	showPeers(message.peers);
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

const seen = new IntersectionObserver((entries) => {
	for (const {target, isIntersecting} of entries) pictures[target.id].visible = isIntersecting;
	drawAll();
});

for (const [id, picture] of Object.entries(pictures)) {
	makeFigure(id, picture);
	picture.figure.addEventListener('keydown', (event) => onKey(picture, event));
	picture.svg.addEventListener('pointermove', (event) => {
		if (!picture.frame) return;
		const x = event.clientX - picture.svg.getBoundingClientRect().left;
		moveCursor(x < picture.frame.left || x > picture.frame.right ? null : picture.frame.time(x));
	});
	picture.svg.addEventListener('pointerleave', () => moveCursor(null));
	seen.observe(picture.figure);
}
document.addEventListener('visibilitychange', drawAll);
addEventListener('resize', drawAll);
setInterval(() => { if (state.heard > 0) showStatus(); }, 1_000);
listen();
