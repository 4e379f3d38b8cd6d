// Numbers as people read them.

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

// moment is a time with its day, where that is not today.
function moment(time) {
	const day = new Date(time).toLocaleDateString();
	return `${day === new Date().toLocaleDateString() ? '' : `${day} `}${clock(time, true)}`;
}
