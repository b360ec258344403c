import { element } from './element.js';
import type { RunData } from './run-data.js';
import type { State } from './state.js';

/** Flags that name places: they differ between any two runs and explain nothing. */
const places = ['save', 'load', 'metrics-jsonl', 'tensorboard-dir', 'profile-trace'];

interface Row {
  readonly name: string;
  readonly values: readonly string[];
}

/** The table of flags and conditions in which the shown runs differ. */
export class Differences {
  readonly #state: State;
  readonly #section: HTMLElement;
  readonly #content = element('div');
  #key = '';

  constructor(parent: HTMLElement, state: State) {
    this.#state = state;
    this.#section = element('section', { class: 'panel' }, element('h2', {}, 'What differs'), this.#content);
    parent.append(this.#section);
  }

  draw(data: RunData): void {
    const ids = this.#state.shown.filter((id) => data.details.has(id));
    this.#section.hidden = ids.length < 2;
    if (ids.length < 2) return;
    const details = ids.map((id) => data.details.get(id)!);
    const flags = differing(details.map((one) => one.flags)).filter(({ name }) => !places.includes(name));
    const rows = [
      ...flags.map(({ name, values }) => ({ name: `--${name}`, values })),
      ...differing(details.map(({ conditions }) => conditions)),
    ];
    const colours = ids.map((id) => this.#state.colourOf(id)!);
    const key = JSON.stringify([ids, colours, rows]);
    if (key === this.#key) return;
    this.#key = key;
    this.#content.replaceChildren(rows.length === 0 ? noDifference() : tableOf(ids, colours, rows));
  }
}

const noDifference = (): HTMLElement =>
  element('p', { class: 'empty' }, 'No flag and no condition differs between these runs.');

function tableOf(ids: readonly string[], colours: readonly number[], rows: readonly Row[]): HTMLElement {
  const heads = ids.map((id, index) =>
    element(
      'th',
      { attributes: { scope: 'col' } },
      element('i', { class: `swatch dot colour-${colours[index]}` }),
      element('span', {}, id),
    ),
  );
  const corner = element('th', { attributes: { scope: 'col' } }, 'Flag or condition');
  const body = rows.map(({ name, values }) =>
    element(
      'tr',
      {},
      element('th', { attributes: { scope: 'row' } }, name),
      ...values.map((value) => element('td', {}, value)),
    ),
  );
  return element(
    'div',
    { class: 'scroll', attributes: { tabindex: 0, role: 'group', 'aria-label': 'What differs' } },
    element(
      'table',
      {},
      element('thead', {}, element('tr', {}, corner, ...heads)),
      element('tbody', {}, ...body),
    ),
  );
}

/** The names whose values are not the same in all. */
function differing(all: readonly Readonly<Record<string, unknown>>[]): Row[] {
  const names = [...new Set(all.flatMap((one) => Object.keys(one)))].sort();
  return names
    .map((name) => ({ name, values: all.map((one) => textOf(one[name])) }))
    .filter(({ values }) => new Set(values).size > 1);
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '–';
  if (Array.isArray(value)) return value.join(' ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
