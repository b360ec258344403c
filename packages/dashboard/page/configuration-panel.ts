import type { RunDetails } from '../src/api-types.js';
import { element } from './element.js';
import { valueElement } from './value-element.js';
import { formatValue } from './value-text.js';

/** The panel with the configuration of the last start: flags, conditions and the command line. */
export class ConfigurationPanel {
  /**
   * The input to filter flags. The same input is used when the panel is drawn again, so that its text is
   * kept.
   */
  readonly #filter = element('input', {
    class: 'filter',
    attributes: { type: 'search', placeholder: 'Filter flags', 'aria-label': 'Filter flags' },
    on: { input: () => this.#update() },
  });
  readonly #command = element('pre', { class: 'command' });
  readonly #nothing = element('p', { class: 'empty', attributes: { role: 'status' } });
  readonly #rows = element('tbody');
  readonly panel = element(
    'section',
    { class: 'part' },
    element('h3', {}, 'Configuration'),
    this.#command,
    this.#filter,
    this.#nothing,
    element(
      'div',
      { class: 'scroll', attributes: { tabindex: 0, role: 'group', 'aria-label': 'Flags' } },
      element('table', {}, this.#rows),
    ),
  );
  #key = '';

  show({ flags, conditions, command }: RunDetails): void {
    const key = JSON.stringify([flags, conditions, command]);
    if (key === this.#key) return;
    this.#key = key;
    this.#command.replaceChildren(valueElement(command ?? ''));
    this.#command.hidden = command === null;
    const values = [
      ...Object.entries(flags).map(([name, value]) => [`--${name}`, value] as const),
      ...Object.entries(conditions),
    ];
    const rows = values.map(([name, value]) =>
      element(
        'tr',
        {},
        element('th', { attributes: { scope: 'row' } }, name),
        element('td', {}, valueElement(formatValue(value))),
      ),
    );
    this.#rows.replaceChildren(...rows);
    this.#update();
  }

  #update(): void {
    const wanted = this.#filter.value.trim().toLowerCase();
    const rows = [...this.#rows.rows];
    for (const row of rows) row.hidden = !(row.textContent ?? '').toLowerCase().includes(wanted);
    const isWithoutMatch = rows.length > 0 && rows.every(({ hidden }) => hidden);
    this.#nothing.textContent = isWithoutMatch
      ? `No flag, value or condition has “${this.#filter.value.trim()}” in it. Clear the filter to see all.`
      : '';
    this.#nothing.hidden = !isWithoutMatch;
  }
}
