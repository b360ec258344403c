import type { MarkOfRun, RunDetails, SeriesAnswer } from '../src/api-types.js';
import { isBand } from './chart-kinds.js';
import { getDetails, getSeries } from './server.js';
import type { State } from './state.js';

/** The pause in milliseconds between two requests for a run that changes continuously. */
const pauseMs = 400;

interface Fetching {
  isRunning: boolean;
  /** True if the run or the view has changed since the last request began. */
  isStale: boolean;
  query: string;
}

/** The details and curves of the shown runs, which are updated from the server. */
export class RunData {
  readonly details = new Map<string, RunDetails>();
  readonly series = new Map<string, SeriesAnswer>();
  /** The errors of failed requests, keyed by run. */
  readonly problems = new Map<string, string>();
  readonly #state: State;
  readonly #fetching = new Map<string, Fetching>();
  readonly #onData: () => void;
  readonly #numPoints: () => number;

  /**
   * `numPoints` returns the number of points of a curve that the screen can show; `onData` is called after
   * each answer.
   */
  constructor(
    state: State,
    { numPoints, onData }: { readonly numPoints: () => number; readonly onData: () => void },
  ) {
    this.#state = state;
    this.#onData = onData;
    this.#numPoints = numPoints;
    state.onChange((changed) => this.#update(changed));
  }

  #update(changed: ReadonlySet<string>): void {
    // a hidden page draws nothing; when it becomes visible, the data of all its runs is requested again
    if (document.hidden) return;
    const { shown, focus, runs } = this.#state;
    const query = this.#query();
    for (const id of new Set([...shown, ...(focus === undefined ? [] : [focus])])) {
      const fetching = this.#fetching.get(id) ?? { isRunning: false, isStale: true, query: '' };
      this.#fetching.set(id, fetching);
      if (changed.has(id) || fetching.query !== query) fetching.isStale = true;
      if (runs.has(id)) void this.#fetch(id, fetching);
    }
    for (const id of this.#fetching.keys()) if (!runs.has(id)) this.#forget(id);
  }

  #query(): string {
    const { axis, smoothing, range } = this.#state.view;
    return JSON.stringify([axis, smoothing, range ?? null]);
  }

  #forget(id: string): void {
    for (const map of [this.details, this.series, this.problems, this.#fetching]) map.delete(id);
  }

  /** Sends requests one after another. Stops when a response belongs to the current view. */
  async #fetch(id: string, fetching: Fetching): Promise<void> {
    if (fetching.isRunning) return;
    fetching.isRunning = true;
    while (fetching.isStale && this.#fetching.get(id) === fetching) {
      fetching.isStale = false;
      const before = fetching.query;
      fetching.query = this.#query();
      try {
        await this.#fetchOnce(id);
        this.problems.delete(id);
      } catch (error) {
        this.problems.set(id, (error as Error).message);
      }
      this.#onData();
      // if the query has changed in the meantime, for example because the user moves a slider, the next
      // request follows without a pause
      if (before === fetching.query) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    fetching.isRunning = false;
  }

  async #fetchOnce(id: string): Promise<void> {
    const details = await getDetails(id);
    this.details.set(id, details);
    if (details.series.length === 0) return;
    const { axis, smoothing, range } = this.#state.view;
    const query = {
      names: details.series.join(','),
      bands: details.series.filter(isBand).join(','),
      axis,
      smoothing: String(smoothing),
      points: String(this.#numPoints()),
      ...(range === undefined ? {} : { from: String(range[0]), to: String(range[1]) }),
    };
    this.series.set(id, await getSeries(id, query));
  }
}

/** Returns the marks of the focused run, sorted along the axis, if its curves are shown. */
export function marksOfFocus({ focus, shown, view }: State, data: RunData): readonly MarkOfRun[] {
  if (!view.showsMarks || focus === undefined || !shown.includes(focus)) return [];
  const marks = data.series.get(focus)?.marks ?? [];
  return marks.filter(({ kind }) => kind !== 'reported' || view.showsReported).sort((a, b) => a.x - b.x);
}
