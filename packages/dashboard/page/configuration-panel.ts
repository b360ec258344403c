import type { RunDetails } from '../src/api-types.js';
import { element } from './element.js';

/** The configuration of the last start: flags, conditions and the command line. */
export function configurationPanel({ flags, conditions, command }: RunDetails): HTMLElement {
  const rows = [
    ...Object.entries(flags).map(([name, value]) => [`--${name}`, value] as const),
    ...Object.entries(conditions),
  ].map(([name, value]) =>
    element(
      'tr',
      {},
      element('th', { attributes: { scope: 'row' } }, name),
      element('td', {}, textOf(value)),
    ),
  );
  const filter = element('input', {
    class: 'filter',
    attributes: { type: 'search', placeholder: 'Filter flags', 'aria-label': 'Filter flags' },
    on: {
      input: () => {
        for (const row of rows)
          row.hidden = !(row.textContent ?? '').toLowerCase().includes(filter.value.toLowerCase());
      },
    },
  });
  const label = { tabindex: 0, role: 'group', 'aria-label': 'Flags' };
  return element(
    'section',
    { class: 'part' },
    element('h3', {}, 'Configuration'),
    command === null ? undefined : element('pre', { class: 'command' }, command),
    filter,
    element(
      'div',
      { class: 'scroll', attributes: label },
      element('table', {}, element('tbody', {}, ...rows)),
    ),
  );
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '–';
  if (Array.isArray(value)) return value.join(' ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
