import { renamedLosses } from '@mtl/run-records';
import type { Axis, EventOfRun, ExpertsAnswer, ExpertsOfRun, RanksOfRun, Series } from './api-types.js';
import { decimate, lowerBound, medianBand, smooth } from './curves.js';
import { wordsOfEvent } from './event-words.js';
import { ExpertRecords, RankRecords } from './rank-and-expert-records.js';
import { AppendedLines } from './run-files.js';
import { SeriesTable } from './series-table.js';

export interface SeriesQuery {
  /** The name of the curve, such as `lm_loss`; the loss of evaluations is `validation.lm_loss`. */
  readonly name: string;
  readonly axis: Axis;
  /** The beginning and the end of the range on the horizontal axis. Default: the whole curve. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly numPoints: number;
  /** The weight of earlier values in the moving average, from 0 to below 1; 0 for no average. */
  readonly smoothing: number;
  /** True to return medians with a band. */
  readonly isBand?: boolean;
}

type Fields = Readonly<Record<string, unknown>> & { readonly iteration: number };

const ofValidation = 'validation.';
/** The largest number of events that are kept. Older events are dropped. */
const mostEvents = 200;

/**
 * The metrics of one run in memory, as columns of numbers that grow with its metrics.jsonl. Every line is
 * read and parsed once.
 */
export class RunIndex {
  readonly steps = new SeriesTable();
  readonly validations = new SeriesTable();
  readonly #lines: AppendedLines;
  #events: EventOfRun[] = [];
  readonly #ranks = new RankRecords();
  readonly #experts = new ExpertRecords();
  #update: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#lines = new AppendedLines(path);
  }

  /** Reads what was appended since the last call. Concurrent calls run one after another. */
  async update(): Promise<void> {
    const update = this.#update.then(() =>
      this.#lines.read({ line: (text) => this.#add(text), restart: () => this.#clear() }),
    );
    this.#update = update.catch(() => undefined);
    await update;
  }

  /** Names of all curves, curves of steps first. */
  get names(): readonly string[] {
    return [...this.steps.names, ...this.validations.names.map((name) => `${ofValidation}${name}`)];
  }

  /** The events, newest first. */
  get events(): readonly EventOfRun[] {
    return this.#events.toReversed();
  }

  get ranks(): RanksOfRun | null {
    return this.#ranks.current;
  }

  get experts(): ExpertsOfRun | null {
    return this.#experts.current;
  }

  /**
   * Returns the loads of experts, and the loads of one layer over time; undefined for a run without experts.
   */
  loadsOfExperts(layer: number | undefined): ExpertsAnswer | undefined {
    return this.#experts.answer(layer);
  }

  /** Returns a curve with about `numPoints` points; undefined if the run has no such curve. */
  series({ name, axis, from, to, numPoints, smoothing, isBand }: SeriesQuery): Series | undefined {
    const isValidation = name.startsWith(ofValidation);
    const table = isValidation ? this.validations : this.steps;
    const y = table.column(isValidation ? name.slice(ofValidation.length) : name);
    if (y === undefined) return undefined;
    const x = this.#axis(table, axis);
    const range = {
      x,
      numPoints,
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to }),
    };
    const band = isBand === true ? medianBand({ ...range, y }) : undefined;
    if (band !== undefined) {
      return { x: band.x, y: band.y, band: { low: band.low, high: band.high }, smoothed: null };
    }
    // evaluations are not smoothed, because they are few, and each is already a mean over many samples
    const isSmoothed = smoothing > 0 && !isValidation;
    return {
      ...decimate({ ...range, y }),
      band: null,
      smoothed: isSmoothed ? decimate({ ...range, y: smooth(y, smoothing) }) : null,
    };
  }

  /**
   * Converts iterations to positions on an axis. The position of an iteration is the position of the last
   * step up to this iteration.
   */
  places(of: Float64Array, axis: Axis): Float64Array {
    if (axis === 'iteration') return of;
    const ofSteps = this.#axis(this.steps, axis);
    const { iterations } = this.steps;
    return of.map((iteration) => ofSteps[lowerBound(iterations, iteration + 1) - 1] ?? 0);
  }

  /**
   * Returns the positions of a table's records on an axis. An evaluation has the position of the step before
   * it.
   */
  #axis(table: SeriesTable, axis: Axis): Float64Array {
    if (axis === 'iteration') return table.iterations;
    if (table === this.steps) return axis === 'tokens' ? this.#tokens() : this.#elapsed();
    return this.places(table.iterations, axis);
  }

  #tokens(): Float64Array {
    return ascending(this.steps.column('consumed_tokens') ?? this.steps.iterations);
  }

  /** Returns, for each step, how many seconds all steps up to this step took. */
  #elapsed(): Float64Array {
    const milliseconds = this.steps.column('step_ms');
    if (milliseconds === undefined) return new Float64Array(this.steps.length);
    let sum = 0;
    return milliseconds.map((step) => {
      sum += Number.isFinite(step) ? step / 1000 : 0;
      return sum;
    });
  }

  #clear(): void {
    this.steps.truncate(0);
    this.validations.truncate(0);
    this.#events = [];
    this.#ranks.clear();
    this.#experts.clear();
  }

  #add(line: string): void {
    const record = recordIn(line);
    if (record === undefined) return;
    const { type } = record;
    if (type === undefined) this.steps.add(record);
    else if (type === 'validation') this.validations.add(record);
    else if (type === 'ranks') this.#ranks.addFigures(record);
    else if (type === 'experts') this.#addExperts(record);
    else if (typeof type === 'string') {
      if (type === 'slow_rank') this.#ranks.addSlowRank(record);
      this.#push(makeEvent(type, record));
    }
  }

  /** Adds loads of experts. The loads count as an event only if some experts got no tokens. */
  #addExperts(record: Fields): void {
    const text = this.#experts.add(record);
    if (text !== undefined) this.#push({ ...makeEvent('experts', record), text });
  }

  #push(event: EventOfRun): void {
    this.#events.push(event);
    if (this.#events.length > mostEvents) this.#events.shift();
  }
}

/**
 * Parses the record in a line; undefined if the line is incomplete because the process was killed while it
 * wrote the line.
 */
function recordIn(line: string): Fields | undefined {
  try {
    const record = JSON.parse(line) as Fields | null;
    return Number.isSafeInteger(record?.iteration) ? renamedLosses(record!) : undefined;
  } catch {
    return undefined;
  }
}

function makeEvent(type: string, { time, iteration, type: _, ...fields }: Fields): EventOfRun {
  const words = wordsOfEvent(type, fields);
  return { type, time: typeof time === 'string' ? time : null, iteration, ...words };
}

/** Returns the values with each gap or decrease replaced by the largest value before it. */
function ascending(values: Float64Array): Float64Array {
  let most = 0;
  return values.map((value) => {
    if (value > most) most = value;
    return most;
  });
}
