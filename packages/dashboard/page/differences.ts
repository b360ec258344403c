import type { ComparableOfRun, ComparableValueOfRun } from '../src/api-types.js';
import { element } from './element.js';
import { type Difference, mostDecisiveFirst } from './order-of-differences.js';
import { formatClass } from './run-colours.js';
import type { RunData } from './run-data.js';
import type { State } from './state.js';
import { valueElement } from './value-element.js';
import { formatValue } from './value-text.js';

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
    const compared = ids.map((id) => data.details.get(id)!.comparable ?? withoutRecord);
    // older runs record only the given flags, and not the flags that follow from others; with such a run,
    // only flags that all runs record are compared
    const inAll = compared.some(({ isResolved }) => !isResolved);
    const flags = differing(
      compared.map((one) => one.flags),
      { inAll },
    );
    const conditions = differing(
      compared.map((one) => one.conditions),
      { inAll: false },
    );
    const ofFlags = mostDecisiveFirst(flags).map(({ name, values }) => ({ name: `--${name}`, values }));
    const rows = [...ofFlags, ...mostDecisiveFirst(conditions)];
    const colours = ids.map((id) => formatClass(this.#state.findColour(id)));
    const key = JSON.stringify([ids, colours, rows]);
    if (key === this.#key) return;
    this.#key = key;
    this.#content.replaceChildren(rows.length === 0 ? noDifference() : showTable(ids, colours, rows));
  }
}

const noDifference = (): HTMLElement =>
  element('p', { class: 'empty' }, 'No flag and no condition differs between these runs.');

function showTable(
  ids: readonly string[],
  colours: readonly string[],
  rows: readonly Difference[],
): HTMLElement {
  const heads = ids.map((id, index) =>
    element(
      'th',
      { attributes: { scope: 'col' } },
      element('i', { class: `swatch dot ${colours[index]}` }),
      valueElement(id),
    ),
  );
  const corner = element('th', { attributes: { scope: 'col' } }, 'Flag or condition');
  const body = rows.map(({ name, values }) =>
    element(
      'tr',
      {},
      element('th', { attributes: { scope: 'row' } }, name),
      ...values.map((value) => element('td', {}, valueElement(value))),
    ),
  );
  return element(
    'div',
    { class: 'scroll differences', attributes: { tabindex: 0, role: 'group', 'aria-label': 'What differs' } },
    element(
      'table',
      {},
      element('thead', {}, element('tr', {}, corner, ...heads)),
      element('tbody', {}, ...body),
    ),
  );
}

/** The comparison `key` of a switch that is off. A missing switch means the same. */
const off = 'false';

const withoutRecord: ComparableOfRun = { isResolved: true, flags: {}, conditions: {} };

/**
 * Returns the names whose values differ between runs. If `inAll` is true, only names that all runs have are
 * compared.
 */
function differing(
  all: readonly Readonly<Record<string, ComparableValueOfRun>>[],
  { inAll }: { readonly inAll: boolean },
): Difference[] {
  const names = [...new Set(all.flatMap((one) => Object.keys(one)))];
  return names
    .filter((name) => new Set(all.map((one) => one[name]?.key ?? off)).size > 1)
    .filter((name) => !inAll || all.every((one) => name in one))
    .map((name) => ({ name, values: all.map((one) => formatValue(one[name]?.shown)) }));
}
