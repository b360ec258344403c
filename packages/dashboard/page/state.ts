import type { Axis, RunSummary, RunsEvent } from '../src/api-types.js';
import { numColours, type RunColour, RunColours } from './run-colours.js';

export type Range = readonly [from: number, to: number];

/** The vertical scale of the charts: the range of most values, the range of all values, or logarithmic. */
export type Scale = 'typical' | 'all' | 'log';

/** The view that the reader chose, which the address of the page describes. */
export interface View {
  /** Runs whose curves are shown; undefined until the reader chooses: then the latest runs are shown. */
  chosen: readonly string[] | undefined;
  /** The run whose details the reader chose; undefined before a choice. */
  chosenFocus: string | undefined;
  axis: Axis;
  /** Weight of the past in moving averages. */
  smoothing: number;
  scale: Scale;
  /** True if events are marked below the curves. */
  showsMarks: boolean;
  /** True if spikes whose update was kept are marked, too. */
  showsReported: boolean;
  /** A part of the names of the runs that are listed and shown; empty for all. */
  filter: string;
  /** The range that is zoomed into; undefined for everything. */
  range: Range | undefined;
  /** The part of the details that is shown; undefined for the first. */
  tab: string | undefined;
  /** The layer whose experts are shown over time; undefined for the first that has experts. */
  layer: number | undefined;
}

/** The state of the page. It calls its listeners after each change. */
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

  /** The runs whose names match the filter, newest first. */
  get listed(): readonly RunSummary[] {
    const wanted = this.view.filter.trim().toLowerCase();
    return newestFirst(this.runs.values()).filter(({ id }) => id.toLowerCase().includes(wanted));
  }

  /** Runs with curves, newest first. */
  get shown(): readonly string[] {
    const { chosen } = this.view;
    const ids = this.listed.map(({ id }) => id);
    return chosen === undefined ? ids.slice(0, numColours) : ids.filter((id) => chosen.includes(id));
  }

  /** The run whose details and events are shown; undefined if no run is listed. */
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
   * Adds a listener, which is called with the runs that have changed; after a change of the view, with no
   * runs.
   */
  onChange(listener: (changed: ReadonlySet<string>) => void): void {
    this.#listeners.push(listener);
  }

  update(change: Partial<View>): void {
    Object.assign(this.view, change);
    this.#tell(new Set());
  }

  show(id: string, isShown: boolean): void {
    // runs that the filter hides stay chosen; before the first choice, the latest of all runs are chosen
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

/** Runs by the time of their first start. */
export function newestFirst(runs: Iterable<RunSummary>): RunSummary[] {
  return [...runs].sort(
    (a, b) => (b.startedAt ?? '').localeCompare(a.startedAt ?? '') || a.id.localeCompare(b.id),
  );
}
