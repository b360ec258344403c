import type { RanksOfRun } from '../src/api-types.js';
import { element } from './element.js';
import { formatBytes, formatNumber, formatSeconds } from './format.js';

/** What each rank takes, and the one that the others wait for; nothing where the run does not write it. */
export function ranksPanel(ranks: RanksOfRun | null): HTMLElement | undefined {
  if (ranks === null || ranks.stepMs.length < 2) return undefined;
  const { iteration, stepMs, communicationMs, peakBytes, hosts, slowest } = ranks;
  const longest = Math.max(...stepMs.map((ms) => ms ?? 0), 1e-9);
  const rows = stepMs.map((ms, rank) => {
    const waited = communicationMs[rank] ?? 0;
    const cells = [seconds(ms), seconds(communicationMs[rank]), formatBytes(peakBytes[rank])];
    return element(
      'tr',
      { class: rank === slowest ? 'slowest' : '' },
      element('th', { attributes: { scope: 'row' } }, `${rank}`),
      element('td', {}, hosts[rank] ?? '–'),
      ...cells.map((text) => element('td', { class: 'number' }, text)),
      element('td', {}, barOf({ computing: ((ms ?? 0) - waited) / longest, waiting: waited / longest })),
    );
  });
  const names = ['Rank', 'Host', 'Step', 'In communication', 'Peak memory', 'Computing and waiting'];
  const heads = names.map((text, index) =>
    element('th', { class: index > 1 && index < 5 ? 'number' : '', attributes: { scope: 'col' } }, text),
  );
  const host = slowest === null ? null : hosts[slowest];
  const verdict =
    slowest === null
      ? 'No rank computes more than a tenth longer than the median.'
      : `Rank ${slowest}${host == null ? '' : ` on ${host}`} computes longest: the others wait for it.`;
  return element(
    'section',
    { class: 'panel wide' },
    element('h3', {}, 'Ranks'),
    element(
      'p',
      { class: slowest === null ? 'muted' : 'error-text' },
      `${verdict} Means up to step ${formatNumber(iteration)}.`,
    ),
    element(
      'div',
      { class: 'scroll', attributes: { tabindex: 0, role: 'group', 'aria-label': 'Ranks' } },
      element('table', {}, element('thead', {}, element('tr', {}, ...heads)), element('tbody', {}, ...rows)),
    ),
  );
}

const seconds = (ms: number | null | undefined): string => formatSeconds(ms == null ? null : ms / 1000);

/** Parts of the longest step; widths are attributes of SVG, which the page's policy allows. */
function barOf({
  computing,
  waiting,
}: {
  readonly computing: number;
  readonly waiting: number;
}): HTMLElement {
  const drawn = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  drawn.setAttribute('viewBox', '0 0 100 8');
  drawn.setAttribute('preserveAspectRatio', 'none');
  drawn.setAttribute('aria-hidden', 'true');
  const parts = [
    ['computing', 0, computing],
    ['waiting', computing, waiting],
  ] as const;
  for (const [kind, from, width] of parts) {
    const part = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    part.setAttribute('class', kind);
    part.setAttribute('x', String(100 * Math.max(0, from)));
    part.setAttribute('width', String(100 * Math.max(0, width)));
    part.setAttribute('height', '8');
    drawn.append(part);
  }
  const bar = element('div', { class: 'bar' });
  bar.append(drawn);
  return bar;
}
