// The verdict, the tables and the status.

function showVerdict(message) {
	const verdict = message.verdict || (state.windows.length > 0 ? 'none' : 'no verdict yet');
	const advice = message.findings.find((f) => f.cause === message.verdict)?.advice ?? '';
	const prefix = message.verdict ? `${message.verdict}: ` : '';
	// The advice and the other causes stand below, so that the sentence is read once.
	let told = message.summary.replace(prefix, '').replace(/; also: .*$/, '').trim();
	if (advice && told.includes(advice.replace(/\.$/, ''))) {
		told = told.replace(advice.replace(/\.$/, ''), '').replace(/[\s.]*$/, '.');
	}
	byId('verdict').className = message.verdict ? `c-${message.verdict}` : '';
	byId('verdict-name').textContent = verdict;
	byId('evidence').textContent = told.charAt(0).toUpperCase() + told.slice(1);
	byId('advice').textContent = advice;
	byId('verdict-since').textContent = message.verdict_since ? `since ${moment(Date.parse(message.verdict_since))}` : '';
	document.title = `${verdict} – ${state.process}`;
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
	fill(byId('findings'), findings.filter((f) => !idle.includes(f)).map((f) => [
		[swatch(f.cause), f.cause], isShare(f.cause) ? percent(f.load) : count(f.load), f.evidence, f.advice,
	]));
	byId('idle').textContent = idle.length > 0 ? `Nothing waited for: ${idle.map((f) => f.cause).join(', ')}.` : '';
	byId('unmeasured').textContent = unmeasured.length > 0 ? `Not measured here, or in this window: ${unmeasured.join(', ')}.` : '';
}

// showAlso names the other causes whose rule held.
function showAlso(also) {
	byId('also').hidden = also.length === 0;
	byId('also').replaceChildren('Also: ', ...also.flatMap((cause, i) => [...(i > 0 ? [', '] : []), swatch(cause), cause]));
}

function swatch(cause) {
	return element('span', {className: `swatch c-${cause}`});
}

// element makes one with text and properties of the document's own; what comes
// from outside is text alone.
function element(name, properties, ...inside) {
	const made = Object.assign(document.createElement(name), properties);
	made.append(...inside);
	return made;
}

// place is a line of code, which one click selects.
const place = (text) => (text ? [element('code', {className: 'place'}, text)] : '');

function showSites(sites, verdict) {
	if (state.sites === JSON.stringify([sites, verdict])) return; // else a selection would be lost
	state.sites = JSON.stringify([sites, verdict]);
	fill(byId('sites-table'), sites.map((site) => [
		[element('span', {className: 'kind'}, site.kind), element('code', {}, site.function), ...stackOf(site)],
		place(site.location),
		[bar(site.share, verdict), percent(site.share)],
		place(site.in),
		place(site.caller),
	]));
	byId('sites').hidden = sites.length === 0;
}

// stackOf is the stack of a site, where the server tells it.
function stackOf({functions}) {
	if (!functions || functions.length === 0) return [];
	return [element('details', {}, element('summary', {}, 'stack'), element('ol', {}, ...functions.map((f) => element('li', {}, element('code', {}, f)))))];
}

// bar is a share as a length.
function bar(share, verdict) {
	const all = svg('svg', {class: `bar c-${verdict}`, viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true'});
	all.append(svg('rect', {class: 'whole', width: 100, height: 10}), svg('rect', {class: 'part', width: 100 * Math.min(1, Math.max(0, share ?? 0)), height: 10}));
	return all;
}

function showPeers(peers) {
	fill(byId('peers-table'), peers.map((p) => [p.host, count(p.waiting), duration(p.wait_seconds), count(p.in_flight)]));
	byId('peers').hidden = peers.length === 0;
}

// showCauses fills the legend of the rules.
function showCauses() {
	fill(byId('causes'), state.causes.map((c) => [[swatch(c.cause), c.cause], c.condition]));
}

function showOldest(oldest) {
	fill(byId('oldest'), oldest.map((w) => [w.kind, w.name || '–', duration(w.age_seconds)]));
	byId('no-oldest').hidden = oldest.length > 0;
}

function showCaptures(captures) {
	if (state.captures === JSON.stringify(captures)) return; // else a link would lose the focus
	state.captures = JSON.stringify(captures);
	fill(byId('captures'), captures.map((c) => [
		moment(Date.parse(c.at)), c.reason,
		c.files.map((file) => element('a', {href: `?capture=${encodeURIComponent(`${c.name}/${file.name}`)}`}, `${file.name} (${bytes(file.bytes)})`)),
	]));
	byId('no-captures').hidden = captures.length > 0;
}

function showDriver() {
	const drives = state.seconds.some((s) => s.driver);
	byId('no-driver').hidden = drives;
	for (const picture of Object.values(pictures)) {
		if (picture.section === 'driver') picture.figure.hidden = !drives;
	}
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

// --- the figures ---

// makeFigure makes the frame of a picture, without its caption, which comes from
// the server.
function makeFigure(id, picture) {
	picture.svg = svg('svg', {role: 'img'});
	picture.legend = element('ul', {className: 'legend'});
	picture.figcaption = element('figcaption', {id: `${id}-caption`});
	picture.figure = element('figure', {id, tabIndex: 0, className: picture.wide ? 'wide' : ''},
		element('h3', {id: `${id}-title`}, picture.title), picture.svg, picture.legend, picture.figcaption);
	picture.figure.hidden = picture.section === 'driver'; // only a process that drives rollouts has them
	picture.figure.setAttribute('role', 'group');
	picture.figure.setAttribute('aria-labelledby', `${id}-title`);
	picture.figure.setAttribute('aria-describedby', `${id}-caption`);
	byId(`pictures-${picture.section}`).append(picture.figure);
}

// showText writes what does not change while a process lives.
function showText(message) {
	state.process = `${message.process}, process ${message.pid}`;
	byId('process').textContent = state.process;
	for (const picture of Object.values(pictures)) picture.figcaption.textContent = picture.caption(message.signals);
	showCauses();
}
