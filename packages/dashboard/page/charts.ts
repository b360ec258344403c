import { Chart, type RunCurve } from './chart.js';
import { type ChartKind, chartKinds } from './chart-kinds.js';
import { element } from './element.js';
import { marksOfFocus, type RunData } from './run-data.js';
import { noRunMatches } from './run-list.js';
import type { State } from './state.js';

/** The charts of all metrics that the shown runs have. */
export class Charts {
  readonly #state: State;
  readonly #grid = element('div', { class: 'charts' });
  readonly #hint = element('p', { class: 'empty' });
  readonly #charts = new Map<string, Chart>();

  constructor(parent: HTMLElement, state: State) {
    this.#state = state;
    parent.append(this.#hint, this.#grid);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      for (const chart of this.#charts.values()) chart.redraw();
    });
  }

  /** The number of points to request for a curve, which is two for each pixel. */
  get numPoints(): number {
    const [first] = this.#charts.values();
    return Math.min(2400, 2 * (first?.width ?? 600));
  }

  draw(data: RunData): void {
    const { shown } = this.#state;
    const marks = marksOfFocus(this.#state, data);
    const names = new Set(shown.flatMap((id) => data.details.get(id)?.series ?? []));
    const drawn = chartKinds(names)
      .map((kind) => ({ kind, curves: this.#listCurves(kind, data) }))
      .filter(({ kind, curves }) => curves.length > 0 && (!kind.isOnlyIfChanging || curves.some(isChanging)));
    for (const [name, chart] of this.#charts) {
      if (drawn.some(({ kind }) => kind.name === name)) continue;
      chart.remove();
      this.#charts.delete(name);
    }
    for (const [index, { kind, curves }] of drawn.entries()) {
      const chart = this.#charts.get(kind.name) ?? new Chart(kind, this.#state);
      this.#charts.set(kind.name, chart);
      const there = this.#grid.children[index];
      if (there !== chart.panel) this.#grid.insertBefore(chart.panel, there ?? null);
      chart.draw(curves, marks);
    }
    this.#hint.textContent = this.#hintFor(drawn.length);
    this.#hint.hidden = drawn.length > 0;
  }

  #listCurves({ name, companion }: ChartKind, data: RunData): RunCurve[] {
    return this.#state.shown.flatMap((id) => {
      const all = data.series.get(id)?.series;
      const series = all?.[name];
      const another = companion === undefined ? undefined : all?.[companion.name];
      return series === undefined
        ? []
        : [
            {
              id,
              look: this.#state.findColour(id),
              isFocus: id === this.#state.focus,
              series,
              ...(another === undefined ? {} : { companion: another }),
            },
          ];
    });
  }

  #hintFor(numCharts: number): string {
    if (numCharts > 0) return '';
    const { runs, shown, listed, view } = this.#state;
    if (runs.size === 0) return 'No run here yet. Runs appear as soon as they begin.';
    if (listed.length === 0) return noRunMatches(view.filter);
    return shown.length === 0 ? 'Choose runs in the list to see their curves.' : 'No step is done yet.';
  }
}

function isChanging({ series: { y } }: RunCurve): boolean {
  return y.some((value) => value !== y[0]);
}
