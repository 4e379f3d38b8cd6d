package diagnosis

// Documentation is what people read of a cause in docs/DIAGNOSIS.md, whose tables
// are made of it. No program contains it: nothing but a test asks for it.
type Documentation struct {
	Meaning   string // what the verdict means
	LookFirst string // where to begin
	NotIt     string // what looks like it and is not
	Why       string // why the thresholds are where they are: "most without … least with"
}

// DocumentationOf returns what people read of a cause.
func DocumentationOf(c Cause) Documentation { return documentation[c] }

var documentation = [NumCauses]Documentation{
	None: {
		Meaning:   "Nothing waits beyond its normal bounds. If users disagree, the time goes by in something that is [not measured](#when-not-to-believe-it), or in another process.",
		LookFirst: "the sentence: where requests wait it has the line; then `Oldest`, which names a stuck request or rollout",
		NotIt:     "The first two windows of a process: until then there is no verdict",
	},
	CPUThrottled: {
		Meaning:   "The container used up its CPU limit and is stopped until the next period, many times a second.",
		LookFirst: "the CPU limit of the container; the site says who uses it up; GOMAXPROCS far above it burns a period's quota in a burst",
		NotIt:     "A quota that cannot be seen, above the container on an old kernel, is unmeasured and not this. Neighbours are `cpu_contended`",
		Why:       "A quota that is never reached stops nothing. 0 … 0.48",
	},
	StopTheWorld: {
		Meaning:   "All goroutines are stopped again and again, and not by the collector.",
		LookFirst: "the site says who, where `WithProfiles` is on; else who calls `runtime.ReadMemStats`, takes goroutine profiles, or changes GOMAXPROCS: an old metrics library, a profiler",
		NotIt:     "The collector's own pauses are `gc`. Stops measured on a crowded machine contain the time of others",
		Why:       "No program stops the world so much by accident. 0 … 0.46",
	},
	GC: {
		Meaning:   "The garbage collector has the processors.",
		LookFirst: "the site says where most bytes are allocated; then the evidence: live heap close to GOMEMLIMIT means too little room, anything else means too much garbage",
		NotIt:     "Idle marking is not counted: a process with idle processors lets the collector have them for nothing. A limiter that was on once in a window is not enough",
		Why:       "It takes a quarter by design while it works, and its limiter caps it at half. 0.22 … 0.49; with the limiter on once in 10 s, 0.14 beside a lock of 27",
	},
	CPUContended: {
		Meaning:   "Threads are ready to run and do not get a processor.",
		LookFirst: "the node: who else runs there? Steal in the evidence is the hypervisor. If the process itself has nearly all CPUs, GOMAXPROCS is too high for them, or C code runs more threads than there are. The site says what of this process wants the processors",
		NotIt:     "A busy proxy wakes its threads thousands of times a second, each for some hundredths of a millisecond: the load is there and nobody feels it. A quota that cannot be seen leaves CPUs idle, and then this is not blamed. Page faults queue goroutines, and each wait for a CPU is short",
		Why:       "A wait each time of 0.06 to 0.19 ms is healthy, and starved processes read 1.7 to 4.8, or 0.23 on half a load. From half on, waiting outweighs running: share 0.51 … 0.75. The own CPU of those that others starve is up to 0.57 of the CPUs, that of a storm of handshakes of its own 0.61 and more. CPUs idle 0 … 0.82",
	},
	CPUSaturated: {
		Meaning:   "There is more work than processors, and it is this process's own.",
		LookFirst: "the site says what the processors do; then admit less at once, or add processors",
		NotIt:     "A herd that one timer or one Cond wakes queues for an instant and is gone. A machine that was stopped wakes up to a queue once: that is `unknown`. A queue of page faults leaves the CPUs idle",
		Why:       "P busy goroutines leave a queue of up to P: 1.0 … 2.5. A queue without busy CPUs is a herd of timers: used 0.67 … 0.96, wanted 0.91 … 0.99. Bursts of 300 ms read a mean of 4 to 17, a median of 0 and a lag share of 0.11 to 0.31; a herd a mean of 18 and 0.03",
	},
	OutputWrite: {
		Meaning:   "Writes of a driver's output do not keep up.",
		LookFirst: "the site says which write; then the disk, the network file system, the store",
		NotIt:     "Many rollouts that each write for a hundredth of their time have one or two writes under way at any moment, and wait for none of them",
		Why:       "A single writer that is a queue reads 0.95 to 1. It comes before `lock`: the lock that a driver's rollouts wait for is mostly held over the write. 128 rollouts with short writes: 0.9 to 3.3 under way, lock 0. 64 with a lock held over each: 1.0 and lock 27 to 47",
	},
	Lock: {
		Meaning:   "Goroutines wait for mutexes.",
		LookFirst: "the site says where they wait, and who holds it across what; then do that work outside of the lock (a mutex profile is empty unless the program calls `runtime.SetMutexProfileFraction`)",
		NotIt:     "A mutex that is used as a token (one at a time, by design), and a herd that one Cond wakes, which reads up to 19 in a healthy pool",
		Why:       "The runtime measures one wait in eight, so that 0.6 can read as 1.6. 1.6 … 37",
	},
	Descriptors: {
		Meaning:   "Nearly all file descriptors are in use. At the limit, accept and open fail.",
		LookFirst: "`ls -l /proc/PID/fd`: sockets mean response bodies that are not closed",
		NotIt:     "A pool of connections that is sized to the limit on purpose",
		Why:       "A hard limit: at 1, calls fail. It comes before the waits that can last for a program's life, which hid 0.95 behind a watch. 0.2 … 0.92",
	},
	Memory: {
		Meaning:   "Nearly all of GOMEMLIMIT or of the container's memory is in use. At the first the collector never rests; past `memory.high` the kernel puts the process to sleep; at the container's limit it is killed.",
		LookFirst: "the site says what holds the heap; what is not heap (stacks, C) is in the evidence too",
		NotIt:     "A warm cache of files, which the kernel drops when it needs the room, and garbage, which a healthy process fills GOMEMLIMIT with: neither counts",
		Why:       "Likewise. Live heap and what is not heap count for GOMEMLIMIT, what the kernel cannot drop for a container. 0.2 … 0.92",
	},
	Downstream: {
		Meaning:   "The process waits for another server. For many programs that is how they live: it is information, and no warning.",
		LookFirst: "the sentence says which server, and the site which call; then that server. A driver waits for its model all day",
		NotIt:     "Watches and long polls, once they are declared with `WithExpectedOutboundWait`. A quick server at a high rate: many calls in flight of 20 ms each",
		Why:       "A few calls out are how services work, but a driver with a limit of 4 makes no more than 4. 1 … 32; mean waits 20 … 1000 ms",
	},
	Admission: {
		Meaning:   "Rollouts wait for the limit, and no cause that comes before it explains that. It is information: a driver that has more to do than its limit lives like that.",
		LookFirst: "the site says which rollouts; then the evidence, which says how many of the active ones wait outbound. Is what is behind the limit idle? Then raise it. `Oldest` shows whether slots are held by something stuck",
		NotIt:     "A limit that is used to 80 %, where rollouts wait for some milliseconds as others come and go",
		Why:       "Then the limit is full all the time. 0.05 … 28. A limit used to 80 % has 3 to 10 waiting, for 4 to 30 ms each; one that is too low 96, for 600 ms",
	},
	BlockedThread: {
		Meaning:   "Goroutines sit in system calls or C code.",
		LookFirst: "the site says which call; then file access on a slow disk, name lookups through C, a C library",
		NotIt:     "A program that runs tools waits for its child processes in a system call each: these are counted and left out, on Linux. A goroutine that reads a pipe or a terminal all day counts, and a profile names it",
		Why:       "A handful live there for good in many programs; `signal.Notify` is one. 0.15 … 30",
	},
	Wait: {
		Meaning:   "Requests in flight wait for something in this process that no other cause covers: a channel, a pool of connections, a semaphore, a limiter. Or calls out wait for a connection of the process's own HTTP client (`MaxConnsPerHost`), also where it serves nothing, as a driver.",
		LookFirst: "the site says where, and what holds it; then give that more room, or hold it for less",
		NotIt:     "Long polls and streams, which wait by design: declare them with `WithExpectedWait`. A wait for a database is another server's doing, and is information",
		Why:       "The least of 27 sick programs had 11.7 waiting, 126 ms each; a half-used pool has 7.2 of 24 ms, 300 long polls 5.6",
	},
	Unknown: {
		Meaning:   "The process runs late and nothing that is measured says why.",
		LookFirst: "was the machine suspended, migrated, or the process stopped by a debugger? Are pages of its files thrown out of memory and read again?",
		NotIt:     "Lateness that has a cause above it in the table: that is the verdict then",
		Why:       "Less is what busy neighbours and the kernel's timer take. 0.02 … 0.33",
	},
}
