import type { ExpertsAnswer, RunDetails, Series } from '../src/api-types.js';
import { findChartKind } from './chart-kinds.js';
import { element } from './element.js';
import { formatNumber } from './format.js';
import { HeatMap } from './heat-map.js';
import { getExperts } from './server.js';
import { type SmallCurveContent, smallCurve } from './small-curve.js';

/** The kinds of router losses. The panel shows the kinds that a run has. */
const routerLosses = [
  ...['load_balancing_loss', 'seq_load_balancing_loss', 'global_load_balancing_loss', 'z_loss'],
].map(findChartKind);

export interface ShownExperts {
  /** The index of the layer that the user chose; undefined before a choice. */
  readonly layer: number | undefined;
  /** The curves of the run, by name. */
  readonly series: Readonly<Record<string, Series>>;
}

/** The panel with the loads of experts: in all layers for the last steps, and in one layer over time. */
export class ExpertsPanel {
  readonly panel = element('section', { class: 'part experts' });
  readonly #verdict = element('p', { class: 'muted' });
  readonly #select: HTMLSelectElement;
  readonly #overview: HeatMap;
  readonly #overTime: HeatMap;
  readonly #curves = element('div', { class: 'small-curves' });
  #wanted = '';
  #drawn = '';
  #answer: ExpertsAnswer | undefined;

  constructor({ onLayer }: { readonly onLayer: (layer: number) => void }) {
    this.#select = element('select', {
      attributes: { 'aria-label': 'Layer' },
      on: { change: () => onLayer(Number(this.#select.value)) },
    });
    const onRow = (row: number): void => {
      const layer = this.#answer?.layers[row];
      if (layer !== undefined) onLayer(layer);
    };
    this.#overview = new HeatMap({ onRow });
    this.#overTime = new HeatMap({ extra: this.#select });
    const maps = element('div', { class: 'heat-maps' }, this.#overview.element, this.#overTime.element);
    this.panel.append(
      element('div', { class: 'experts-head' }, element('h3', {}, 'Experts'), legend()),
      this.#verdict,
      maps,
      this.#curves,
    );
  }

  /** Draws the known data, and requests newer data from the server. */
  show({ id, experts }: RunDetails, { layer, series }: ShownExperts): void {
    if (experts === null) return;
    const wanted = JSON.stringify([id, experts.iteration, layer]);
    if (wanted !== this.#wanted) {
      this.#wanted = wanted;
      getExperts(id, layer).then(
        (answer) => {
          if (this.#wanted !== wanted) return;
          this.#answer = answer;
          this.#drawMaps(answer);
          this.#drawCurves(answer, series);
        },
        (error: Error) => this.#complain(error.message),
      );
    } else if (this.#answer !== undefined) this.#drawCurves(this.#answer, series);
  }

  #complain(message: string): void {
    this.#verdict.className = 'error-text';
    this.#verdict.textContent = message;
  }

  #drawMaps(answer: ExpertsAnswer): void {
    const { layers, layer, numExperts, newest, loads, first, last } = answer;
    const { text, isGrave } = formatVerdict(answer);
    this.#verdict.className = isGrave ? 'error-text' : 'muted';
    this.#verdict.textContent = text;
    const options = layers.map((number) =>
      element('option', { attributes: { value: number, selected: number === layer } }, `Layer ${number}`),
    );
    this.#select.replaceChildren(...options);
    const experts = Array.from({ length: numExperts }, (_, expert) => `${expert}`);
    this.#overview.show({
      title: 'All layers',
      unit: `experts of each, ${stepsText(newest.first, newest.last)}`,
      label: `Loads of ${numExperts} experts in ${layers.length} layers. ${text}`,
      values: newest.loads,
      rows: layers.map(String),
      columns: experts,
      isOverTime: false,
      marked: layers.indexOf(layer),
      describeCell: (row, column) =>
        `layer ${layers[row]}, expert ${column}: ${timesEven(newest.loads[row]![column]!)}`,
    });
    this.#overTime.show({
      title: '',
      unit: 'its experts over steps',
      label: `Loads of ${numExperts} experts of layer ${layer} over ${stepsText(first[0]!, last.at(-1)!)}`,
      values: experts.map((_, expert) => loads.map((ofInterval) => ofInterval[expert]!)),
      rows: experts,
      columns: last.map((step) => formatNumber(step)),
      isOverTime: true,
      describeCell: (row, column) =>
        `expert ${row}, ${stepsText(first[column]!, last[column]!)}: ${timesEven(loads[column]![row]!)}`,
    });
  }

  #drawCurves(
    { layer, loads, dropped, entropy, numExperts }: ExpertsAnswer,
    series: ShownExperts['series'],
  ): void {
    const ofLayer = `layer ${layer}`;
    const losses = routerLosses.flatMap(({ name, title, unit }) =>
      series[name] === undefined ? [] : [{ title, unit, y: series[name].y, format: formatNumber }],
    );
    const key = JSON.stringify([this.#wanted, losses]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    const curves: SmallCurveContent[] = [
      {
        title: 'Busiest expert',
        unit: `${ofLayer}, × even`,
        y: loads.map((all) => Math.max(...all)),
        format: (load) => formatNumber(load, 3),
      },
      { title: 'Dropped choices', unit: ofLayer, y: dropped, format: percent },
      {
        title: 'Router entropy',
        unit: `${ofLayer}, even is ${formatNumber(Math.log(numExperts), 3)}`,
        y: entropy,
        format: formatNumber,
      },
      ...losses,
    ];
    this.#curves.replaceChildren(...curves.map(smallCurve));
  }
}

const timesEven = (load: number | null | undefined): string => `${formatNumber(load, 3)} × even`;

function percent(share: number | null | undefined): string {
  return share == null ? '–' : `${formatNumber(100 * share, 3)} %`;
}

function stepsText(first: number, last: number): string {
  return first === last
    ? `step ${formatNumber(last)}`
    : `steps ${formatNumber(first)} to ${formatNumber(last)}`;
}

/** Returns a message about the busiest expert of the last steps, and about experts without tokens. */
function formatVerdict({ layers, newest: { loads } }: ExpertsAnswer) {
  const busiest = loads.map((ofLayer) => Math.max(...ofLayer));
  const at = busiest.indexOf(Math.max(...busiest));
  const expert = loads[at]!.indexOf(busiest[at]!);
  const idle = loads.flatMap((ofLayer, index) => {
    const experts = ofLayer.flatMap((load, number) => (load === 0 ? [number] : []));
    return experts.length === 0 ? [] : [`layer ${layers[index]}: ${experts.join(', ')}`];
  });
  const most = `Busiest is expert ${expert} of layer ${layers[at]} with ${timesEven(busiest[at])}.`;
  const none =
    idle.length === 0 ? 'All experts got tokens.' : `Experts that got no tokens: ${idle.join('; ')}.`;
  // the rate of model FLOPs on the page depends on this count
  const counted = 'Model FLOPs count the experts that a token uses.';
  return { text: `${most} ${none} ${counted}`, isGrave: idle.length > 0 };
}

/** Returns the legend of the colours, which the style sheet defines. */
function legend(): HTMLElement {
  const cells = ['none', '¼', '½', '1', '2', '4'].map((text) =>
    element('span', {}, element('i', { class: `heat heat-${names[text]}` }), text),
  );
  return element('p', { class: 'heat-legend' }, ...cells, element('span', { class: 'unit' }, '× even load'));
}

const names: Readonly<Record<string, string>> = {
  none: 'none',
  '¼': 'quarter',
  '½': 'half',
  '1': 'even',
  '2': 'double',
  '4': 'fourfold',
};
