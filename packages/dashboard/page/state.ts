import type { Axis, RunSummary, RunsEvent } from '../src/api-types.js';
import { numColours, type RunColour, RunColours } from './run-colours.js';

export type Range = readonly [from: number, to: number];

/**
 * The range of the vertical axes, which covers most values, all values, or all values in logarithmic scale.
 */
export type Scale = 'typical' | 'all' | 'log';

/** The settings that the user has chosen, which the page's address contains. */
export interface View {
  /**
   * The runs whose curves are shown. Undefined until the user chooses runs: the page shows the latest runs.
   */
  chosen: readonly string[] | undefined;
  /** The run whose details the user has chosen; undefined until the user chooses. */
  chosenFocus: string | undefined;
  axis: Axis;
  /** The weight of earlier values in moving averages, from 0 to below 1. */
  smoothing: number;
  scale: Scale;
  /** True if marks of events are shown below the curves. */
  showsMarks: boolean;
  /** True if spikes whose update was kept are marked as well. */
  showsReported: boolean;
  /** A string that the names of listed runs must contain; empty for all runs. */
  filter: string;
  /** The range of the horizontal axis to which charts are zoomed; undefined for all values. */
  range: Range | undefined;
  /** The selected tab of the details; undefined for the first tab. */
  tab: string | undefined;
  /** The index of the layer whose experts are shown over time; undefined for the first layer with experts. */
  layer: number | undefined;
}

/** The state of the page, which calls its listeners after each change. */
export class State {
  readonly runs = new Map<string, RunSummary>();
  directory = '';
  isConnected = true;
  readonly view: View;
  readonly #colours = new RunColours();
  readonly #listeners: Array<(changed: ReadonlySet<string>) => void> = [];

  constructor(view: Partial<View> = {}) {
    this.view = {
      chosen: undefined,
      chosenFocus: undefined,
      axis: 'iteration',
      smoothing: 0,
      scale: 'typical',
      showsMarks: true,
      showsReported: false,
      filter: '',
      range: undefined,
      tab: undefined,
      layer: undefined,
      ...view,
    };
  }

  /** The runs whose names contain the filter string, newest first. */
  get listed(): readonly RunSummary[] {
    const wanted = this.view.filter.trim().toLowerCase();
    return newestFirst(this.runs.values()).filter(({ id }) => id.toLowerCase().includes(wanted));
  }

  /** The names of runs whose curves are shown, newest first. */
  get shown(): readonly string[] {
    const { chosen } = this.view;
    const ids = this.listed.map(({ id }) => id);
    return chosen === undefined ? ids.slice(0, numColours) : ids.filter((id) => chosen.includes(id));
  }

  /** The name of the run whose details and marks are shown; undefined if no run is listed. */
  get focus(): string | undefined {
    const { chosenFocus } = this.view;
    const { listed } = this;
    if (listed.some(({ id }) => id === chosenFocus)) return chosenFocus;
    return this.shown[0] ?? listed[0]?.id;
  }

  findColour(id: string): RunColour {
    return this.#colours.of(id);
  }

  /**
   * Adds a listener. The listener is called with the names of the runs that have changed. After a change of
   * the view, it is called with an empty set.
   */
  onChange(listener: (changed: ReadonlySet<string>) => void): void {
    this.#listeners.push(listener);
  }

  update(change: Partial<View>): void {
    Object.assign(this.view, change);
    this.#tell(new Set());
  }

  show(id: string, isShown: boolean): void {
    // runs that the filter hides remain chosen; before the first choice, the latest of all runs are chosen
    const latest = newestFirst(this.runs.values()).slice(0, numColours);
    const before = this.view.chosen ?? new Set([...this.shown, ...latest.map((run) => run.id)]);
    const others = [...before].filter((other) => other !== id);
    this.update({ chosen: isShown ? [...others, id] : others });
  }

  setConnected(isConnected: boolean): void {
    this.isConnected = isConnected;
    this.#tell(new Set());
  }

  receive({ directory, runs, removed, isAll }: RunsEvent): void {
    this.directory = directory;
    if (isAll) this.runs.clear();
    for (const run of runs) this.runs.set(run.id, run);
    for (const id of removed) this.runs.delete(id);
    this.#colours.add(
      newestFirst(this.runs.values())
        .map(({ id }) => id)
        .toReversed(),
    );
    this.#tell(new Set(runs.map(({ id }) => id)));
  }

  #tell(changed: ReadonlySet<string>): void {
    for (const listener of this.#listeners) listener(changed);
  }
}

/** Sorts runs by the time of their first start, the newest first. */
export function newestFirst(runs: Iterable<RunSummary>): RunSummary[] {
  return [...runs].sort(
    (a, b) => (b.startedAt ?? '').localeCompare(a.startedAt ?? '') || a.id.localeCompare(b.id),
  );
}
