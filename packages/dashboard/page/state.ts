import type { Axis, RunSummary, RunsEvent } from '../src/api-types.js';

/** Colours are told apart to this number; further runs begin again. */
export const numColours = 8;

export type Range = readonly [from: number, to: number];

/** What the page shows. Each change is told to all who asked for it. */
export class State {
  readonly runs = new Map<string, RunSummary>();
  directory = '';
  isConnected = true;
  axis: Axis = 'iteration';
  /** Weight of the past in moving averages. */
  smoothing = 0;
  isLogarithmic = false;
  /** Whether what happened is marked below the curves. */
  showsMarks = true;
  /** Whether spikes are marked too whose update was kept. */
  showsReported = false;
  /** What is zoomed into; undefined for everything. */
  range: Range | undefined;
  /** The run whose details are shown. */
  focus: string | undefined;
  /** Runs with curves, each with its colour. */
  readonly #colours = new Map<string, number>();
  readonly #listeners: Array<(changed: ReadonlySet<string>) => void> = [];
  #hasChosen = false;

  /** Runs with curves, in the order of their colours. */
  get shown(): readonly string[] {
    const shown = [...this.#colours.keys()].filter((id) => this.runs.has(id));
    return shown.sort((a, b) => this.colourOf(a)! - this.colourOf(b)!);
  }

  /** The number of a run's colour; undefined where its curves are not shown. */
  colourOf(id: string): number | undefined {
    return this.#colours.get(id);
  }

  /** `listener` is told which runs have changed, and of any change of what is shown with no runs. */
  onChange(listener: (changed: ReadonlySet<string>) => void): void {
    this.#listeners.push(listener);
  }

  update(
    change: Partial<
      Pick<
        State,
        | 'axis'
        | 'smoothing'
        | 'isLogarithmic'
        | 'showsMarks'
        | 'showsReported'
        | 'range'
        | 'focus'
        | 'isConnected'
      >
    >,
  ): void {
    Object.assign(this, change);
    this.#tell(new Set());
  }

  show(id: string, isShown: boolean): void {
    this.#hasChosen = true;
    this.#setShown(id, isShown);
    this.#tell(new Set());
  }

  receive({ directory, runs, removed }: RunsEvent): void {
    this.directory = directory;
    for (const run of runs) this.runs.set(run.id, run);
    for (const id of removed) {
      this.runs.delete(id);
      this.#colours.delete(id);
    }
    if (!this.#hasChosen) this.#showNewest();
    if (this.focus === undefined || !this.runs.has(this.focus)) this.focus = this.shown[0];
    this.#tell(new Set(runs.map(({ id }) => id)));
  }

  /** Until the user chooses, the latest runs are shown, as many as there are colours. */
  #showNewest(): void {
    for (const { id } of newestFirst(this.runs.values()).slice(0, numColours)) this.#setShown(id, true);
  }

  #setShown(id: string, isShown: boolean): void {
    if (!isShown) this.#colours.delete(id);
    else if (!this.#colours.has(id)) this.#colours.set(id, this.#freeColour());
  }

  /** The colour that the fewest runs have. */
  #freeColour(): number {
    const uses = new Array<number>(numColours).fill(0);
    for (const colour of this.#colours.values()) uses[colour]! += 1;
    return uses.indexOf(Math.min(...uses));
  }

  #tell(changed: ReadonlySet<string>): void {
    for (const listener of this.#listeners) listener(changed);
  }
}

/** Runs by the time of their first start. */
export function newestFirst(runs: Iterable<RunSummary>): RunSummary[] {
  return [...runs].sort(
    (a, b) => (b.startedAt ?? '').localeCompare(a.startedAt ?? '') || a.id.localeCompare(b.id),
  );
}
