// How long operations take: rates, percentiles, processor time; and the limit of the time for preparation.

/** How long the preparation of a cell may take, in seconds. */
const PREPARATION = 45;

/** The system cannot do a workload; the message is the reason, in one sentence. */
export class Unsupported extends Error {}

/** Percentiles of durations, in microseconds. */
function percentiles(taken) {
  taken.sort((a, b) => a - b);
  const at = (share) => Math.round(taken[Math.min(taken.length - 1, Math.floor(taken.length * share))] * 1e4) / 10;
  return {p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1)};
}

/** The processor time of this process, in seconds. */
function processor() {
  const {user, system} = process.cpuUsage();
  return (user + system) / 1e6;
}

/** The numbers of one cell, which may have several parts. */
export class Measured {
  #taken = [];
  #seconds = 0;
  #used = 0;

  /**
   * Lets each task repeat its step until it is over, and once at least; returns how many steps each task did.
   *
   * A step gets the number of its task, and how many steps the task did before; `isOver` the seconds since the start,
   * and how many the task did.
   */
  async part(tasks, step, isOver) {
    const work = async (task) => {
      for (let number = 0; ; number++) {
        const begun = performance.now();
        await step(task, number);
        const ended = performance.now();
        this.#taken.push(ended - begun);
        if (isOver((ended - start) / 1000, number + 1)) return number + 1;
      }
    };
    const used = processor();
    const start = performance.now();
    const done = await Promise.all(Array.from({length: tasks}, (_, task) => work(task)));
    this.#seconds += (performance.now() - start) / 1000;
    this.#used += processor() - used;
    return done;
  }

  answer() {
    return {
      operations: this.#taken.length,
      seconds: this.#seconds,
      processor_seconds: this.#used,
      latencies_us: percentiles(this.#taken),
      wrong: null,
      bytes: null,
      note: null,
    };
  }
}

/** Lets each task repeat its step until the time is over; returns the answer, and how many steps each task did. */
export async function repeat(tasks, seconds, step) {
  const measured = new Measured();
  const done = await measured.part(tasks, step, (elapsed) => elapsed >= seconds);
  return {answer: measured.answer(), done};
}

/** Stops a preparation as soon as it is foreseeable that it takes too long. */
export class Preparation {
  #total;
  #done = 0;
  #begun = performance.now();

  constructor(total) {
    this.#total = total;
  }

  advance(parts = 1) {
    this.#done += parts;
    const elapsed = (performance.now() - this.#begun) / 1000;
    const expected = (elapsed / this.#done) * this.#total;
    if (elapsed > 3 && expected > PREPARATION) {
      throw new Unsupported(`the preparation of this size takes about ${Math.round(expected)} s.`);
    }
  }
}
