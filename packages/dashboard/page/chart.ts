import uPlot from 'uplot';
import type { MarkOfRun, Points, Series } from '../src/api-types.js';
import { formatMark, formatPlace, stepsOfAxis } from './axis-labels.js';
import type { ChartKind } from './chart-kinds.js';
import { element } from './element.js';
import { formatNumber } from './format.js';
import { MarkLabel } from './mark-label.js';
import { drawRail, groupMarks, type MarkGroup, railHeight } from './mark-rail.js';
import { dashes, formatClass, type RunColour } from './run-colours.js';
import type { Range, State } from './state.js';
import { type Limits, typicalLimits } from './typical-limits.js';

/** The curve of one run. */
export interface RunCurve {
  readonly id: string;
  readonly look: RunColour;
  /** True if the page shows the run's details; the run's line is then the widest. */
  readonly isFocus: boolean;
  readonly series: Series;
  /** The curve of the chart's companion metric. */
  readonly companion?: Series;
}

/** A line in the plot, which is a curve or the moving average of a curve. */
interface Line {
  readonly id: string;
  readonly look: RunColour;
  readonly isFocus: boolean;
  readonly points: Points;
  /**
   * `faint`: the original curve, drawn behind its moving average. `edge`: one edge of a band; the band is
   * filled and its edges have no line.
   */
  readonly part: 'line' | 'faint' | 'edge';
}

const height = 222;

/** A chart of one metric. It shows the curves of several runs. */
export class Chart {
  readonly panel: HTMLElement;
  readonly #kind: ChartKind;
  readonly #state: State;
  readonly #place = element('span', { class: 'place' });
  /** The text about values outside of the plot's limits. */
  readonly #beyond = element('span', { class: 'beyond' });
  readonly #plotArea: HTMLElement;
  readonly #valueList = element('ul', { class: 'values' });
  #values: HTMLElement[] = [];
  #curves: readonly RunCurve[] = [];
  #lines: readonly Line[] = [];
  #marks: readonly MarkOfRun[] = [];
  #groups: readonly MarkGroup[] = [];
  readonly #label = new MarkLabel();
  #plot: uPlot | undefined;
  #key = '';

  constructor(kind: ChartKind, state: State) {
    this.#kind = kind;
    this.#state = state;
    const heading = `chart-${kind.name.replace(/[^\w-]/g, '-')}`;
    this.#plotArea = element('div', {
      class: 'plot',
      attributes: { tabindex: 0, role: 'group', 'aria-roledescription': 'chart' },
      on: {
        keydown: (event) => this.#onKey(event as KeyboardEvent),
        mousemove: (event) => this.#onPointer(event as MouseEvent),
        mouseleave: () => this.#label.hide(),
      },
    });
    const title = element('h3', { attributes: { id: heading } }, kind.title);
    const unit = element('span', { class: 'unit' }, kind.unit);
    this.panel = element(
      'figure',
      { class: 'panel chart', attributes: { 'aria-labelledby': heading, 'data-chart': kind.name } },
      element('figcaption', {}, title, unit, this.#beyond, this.#place),
      element('div', { class: 'plot-frame' }, this.#plotArea),
      this.#valueList,
      this.#label.element,
    );
    new ResizeObserver(() => this.#plot?.setSize({ width: this.width, height })).observe(this.#plotArea);
  }

  /** The width of the plot in pixels. */
  get width(): number {
    return Math.max(200, this.#plotArea.clientWidth);
  }

  /** Draws the curves, in the order of their runs, and the marks of events. */
  draw(curves: readonly RunCurve[], marks: readonly MarkOfRun[]): void {
    const { canBeSmoothed } = this.#kind;
    const lines = curves.flatMap((curve) => listLines(curve, { isSmoothed: canBeSmoothed }));
    const key = JSON.stringify([
      lines.map(({ id, look, isFocus, part }) => [id, look, isFocus, part]),
      [this.#state.view.axis, this.#isLogarithmic],
    ]);
    this.#curves = curves;
    this.#lines = lines;
    this.#marks = marks;
    const data = this.#data();
    if (this.#plot !== undefined && key === this.#key) {
      this.#plot.setData(data);
    } else {
      this.#plot?.destroy();
      this.#plot = new uPlot(this.#options(), data, this.#plotArea);
      this.#key = key;
      this.#fillValues(curves);
    }
    this.#showValues();
  }

  /** Draws the same curves again, because the page's colours have changed. */
  redraw(): void {
    this.#plot?.redraw(false, true);
  }

  remove(): void {
    this.#plot?.destroy();
    this.panel.remove();
  }

  get #isLogarithmic(): boolean {
    return this.#state.view.scale === 'log' && this.#kind.canBeLogarithmic;
  }

  #data(): uPlot.AlignedData {
    const isLogarithmic = this.#isLogarithmic;
    const tables = this.#lines.map(({ points: { x, y } }): uPlot.AlignedData => {
      // a logarithmic scale cannot show zero
      const values = isLogarithmic ? y.map((value) => (value !== null && value > 0 ? value : null)) : y;
      return [x as number[], values as (number | null)[]];
    });
    return tables.length === 0 ? [[]] : uPlot.join(tables);
  }

  #options(): uPlot.Options {
    const { axis } = this.#state.view;
    const lines: uPlot.Series[] = this.#lines.map(({ look, isFocus, part, points }, index) => ({
      stroke: () => (part === 'edge' ? 'transparent' : readColour(runColour(look, part))),
      width: part === 'edge' ? 0 : part === 'faint' ? 1 : isFocus ? 2.5 : 1.5,
      dash: [...dashes[look.dash]!],
      // a curve with few values is drawn with points, because a single value would have no line
      points: { show: part === 'line' && points.x.length <= 40 && !this.#isEdge(index - 1), size: 5 },
    }));
    const line = { stroke: () => readColour('--muted'), font: '11px system-ui, sans-serif' };
    const grid = { stroke: () => readColour('--grid'), width: 1 };
    return {
      width: this.width,
      height,
      padding: [10, 26, 0, 4],
      legend: { show: false },
      series: [{}, ...lines],
      bands: this.#bands(),
      scales: {
        x: { time: false, range: (_, least, most) => this.#rangeOfX(least, most) },
        y: { distr: this.#isLogarithmic ? 3 : 1, range: (_, least, most) => this.#rangeOfY(least, most) },
      },
      axes: [
        {
          ...line,
          grid: { show: false },
          ticks: { show: false },
          gap: railHeight + 4,
          size: railHeight + 26,
          space: 70,
          incrs: stepsOfAxis(axis),
          values: (_, marks) => marks.map((mark) => formatMark(axis, mark, marks.at(-1) ?? 0)),
        },
        {
          ...line,
          grid,
          ticks: { show: false },
          size: 62,
          space: 36,
          ...(this.#kind.marks === undefined ? {} : { incrs: this.#kind.marks }),
          values: (_, marks) => marks.map((mark) => (mark === null ? '' : this.#kind.format(mark))),
        },
      ],
      cursor: {
        y: false,
        sync: { key: 'charts', scales: ['x', null] },
        drag: { x: true, y: false, setScale: false },
        points: { size: (_, index) => (this.#isEdge(index - 1) ? 0 : 7) },
        bind: {
          dblclick: () => () => {
            this.#state.update({ range: undefined });
            return null;
          },
        },
      },
      hooks: {
        draw: [
          (plot) => {
            this.#groups = groupMarks(plot, this.#marks);
            drawRail(plot, this.#groups);
          },
        ],
        setCursor: [() => this.#showValues()],
        setSelect: [(plot) => this.#zoomTo(plot)],
      },
    };
  }

  /** Returns true if the line at `index` is an edge of a band. */
  #isEdge(index: number): boolean {
    return this.#lines[index]?.part === 'edge';
  }

  /** Returns the areas between the two edges of each band. In uPlot, series 0 is the axis. */
  #bands(): uPlot.Band[] {
    return this.#lines.flatMap(({ look, part }, index) =>
      part === 'edge' && this.#isEdge(index + 1)
        ? [
            {
              series: [index + 1, index + 2] as [number, number],
              fill: () => readColour(runColour(look, 'faint')),
            },
          ]
        : [],
    );
  }

  /** Returns the label of a run's companion metric at position `x`. Default: the last position. */
  #companionText(id: string, x = Infinity): string {
    const { companion } = this.#kind;
    const series = this.#curves.find((curve) => curve.id === id)?.companion;
    if (companion === undefined || series === undefined) return '';
    const at = series.x.findLastIndex((one) => one <= x);
    return ` · ${formatNumber(series.y[at])} ${companion.unit}`;
  }

  #rangeOfX(least: number | null, most: number | null): uPlot.Range.MinMax {
    if (this.#state.view.range !== undefined) return [...this.#state.view.range];
    if (least === null || most === null) return [0, 1];
    return least === most ? [least - 1, most + 1] : [least, most];
  }

  #rangeOfY(least: number | null, most: number | null): uPlot.Range.MinMax {
    if (least === null || most === null) return this.#isLogarithmic ? [0.1, 1] : [0, 1];
    this.#beyond.textContent = '';
    if (this.#isLogarithmic) {
      // adds a margin of a twentieth of the height above and below the values
      const margin = (most / least) ** 0.05 * (most === least ? 1.1 : 1);
      return [least / margin, most * margin];
    }
    if (this.#kind.isFromZero && least >= 0) return [0, most === 0 ? 1 : 1.08 * most];
    const { least: low, most: high } = this.#limits({ least, most });
    return withMargin(low, high);
  }

  /**
   * Returns the limits of the values within the shown range. With the typical scale, most values are within
   * these limits.
   */
  #limits(all: Limits): Limits {
    const { scale, range } = this.#state.view;
    const isTypical = scale === 'typical' && this.#kind.canBeLogarithmic && !this.#kind.isFromZero;
    const [from, to] = range ?? [-Infinity, Infinity];
    const listValues = ({ id }: RunCurve): readonly (number | null)[] =>
      this.#lines
        .filter((line) => line.id === id)
        .flatMap(({ points: { x, y } }) => y.filter((_, at) => x[at]! >= from && x[at]! <= to));
    const focus = this.#curves.findIndex(({ isFocus }) => isFocus);
    const typical = isTypical ? typicalLimits(this.#curves.map(listValues), focus) : undefined;
    const limits = typical ?? all;
    const isCut = all.most > limits.most;
    this.#beyond.textContent = isCut ? `up to ${this.#kind.format(all.most)} not shown` : '';
    return limits;
  }

  /** Zooms all charts to the range that the user has selected with the mouse. */
  #zoomTo(plot: uPlot): void {
    const { left, width } = plot.select;
    // a narrow selection is a click
    if (width < 4) return;
    const range: Range = [plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.#state.update({ range });
  }

  #onPointer({ clientX }: MouseEvent): void {
    const plot = this.#plot;
    if (plot === undefined) return;
    const left = clientX - plot.over.getBoundingClientRect().left;
    this.#label.show(plot, { groups: this.#groups, left });
  }

  #onKey(event: KeyboardEvent): void {
    const { min, max } = this.#plot?.scales.x ?? {};
    if (min == null || max == null || event.ctrlKey || event.metaKey || event.altKey) return;
    const span = max - min;
    const ranges: Readonly<Record<string, Range | undefined>> = {
      ArrowLeft: [min - span / 10, max - span / 10],
      ArrowRight: [min + span / 10, max + span / 10],
      '+': [min + span / 4, max - span / 4],
      '=': [min + span / 4, max - span / 4],
      '-': [min - span / 2, max + span / 2],
      Escape: undefined,
    };
    if (!(event.key in ranges)) return;
    event.preventDefault();
    this.#state.update({ range: ranges[event.key] });
  }

  #fillValues(curves: readonly RunCurve[]): void {
    this.#values = curves.map(() => element('strong'));
    const rows = curves.map(({ id, look }, index) => {
      const swatch = element('i', { class: `swatch dot ${formatClass(look)}` });
      return element('li', { attributes: { title: id } }, swatch, this.#values[index]);
    });
    this.#valueList.replaceChildren(...rows);
  }

  /** Shows the value of each run at the cursor; if there is no cursor, the last value. */
  #showValues(): void {
    const plot = this.#plot;
    if (plot === undefined) return;
    const { axis } = this.#state.view;
    const at = plot.cursor.idx ?? undefined;
    const x = at === undefined ? undefined : plot.data[0][at];
    this.#place.textContent = x === undefined ? '' : formatPlace(axis, x);
    const shown = this.#lines.flatMap(({ id, part }, index) => (part === 'line' ? [{ id, index }] : []));
    const texts = shown.map(({ id, index }, row) => {
      const values = plot.data[index + 1]!;
      const value = this.#kind.format(valueNear(values, at ?? values.length - 1));
      const text = `${value}${this.#companionText(id, x)}`;
      const cell = this.#values[row];
      if (cell !== undefined) cell.textContent = text;
      return `${id} ${text}`;
    });
    if (x !== undefined) return;
    const keys = 'Arrow keys move, plus and minus zoom, Escape shows everything.';
    this.#plotArea.setAttribute(
      'aria-label',
      `${this.#kind.title}, last values: ${texts.join('; ')}. ${keys}`,
    );
  }
}

/** Returns the lines of a curve; later lines are drawn over earlier lines. */
function listLines({ series, ...of }: RunCurve, { isSmoothed }: { readonly isSmoothed: boolean }): Line[] {
  const { x, y, band, smoothed } = series;
  const line = (part: Line['part'], points: Points): Line => ({ ...of, points, part });
  if (band !== null) {
    const { low, high } = band;
    return [line('edge', { x, y: high }), line('edge', { x, y: low }), line('line', { x, y })];
  }
  if (smoothed === null || !isSmoothed) return [line('line', series)];
  return [line('faint', series), line('line', smoothed)];
}

function withMargin(least: number, most: number): uPlot.Range.MinMax {
  const margin = most === least ? Math.abs(most) * 0.1 || 1 : 0.06 * (most - least);
  return [least - margin, most + margin];
}

const runColour = ({ colour }: RunColour, part: Line['part']): string =>
  `--run-${colour}${part === 'faint' ? '-faint' : ''}`;

/**
 * Returns the value of a curve at an index. If only other curves have a point there, returns the curve's
 * previous value.
 */
function valueNear(values: ArrayLike<number | null | undefined>, at: number): number | null {
  for (let index = at; index >= 0; index--) if (values[index] !== undefined) return values[index]!;
  return null;
}

const readColour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name);
