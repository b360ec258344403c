import type { RanksOfRun } from '../src/api-types.js';
import { element } from './element.js';
import { formatBytes, formatNumber, formatSeconds } from './format.js';

const columns = ['Rank', 'Host', 'Step', 'Computing', 'Waiting', 'Peak memory', 'Parts of the step'];
const isNumber = (column: number): boolean => column > 1 && column < 6;

/**
 * Returns the panel that shows how long each rank computes and waits, and the rank for which others wait;
 * undefined if the run does not record these times.
 */
export function ranksPanel(ranks: RanksOfRun | null): HTMLElement | undefined {
  if (ranks === null) return undefined;
  const { iteration, computeMs, waitedMs, peakBytes, hosts, slow } = ranks;
  const longest = Math.max(...computeMs.map((ms, rank) => (ms ?? 0) + (waitedMs[rank] ?? 0)), 1e-9);
  const rows = computeMs.map((computing, rank) => {
    const waiting = waitedMs[rank] ?? null;
    const times = [computing === null ? null : computing + (waiting ?? 0), computing, waiting].map(seconds);
    const bar = drawBar({ computing: (computing ?? 0) / longest, waiting: (waiting ?? 0) / longest });
    return element(
      'tr',
      { class: slow.includes(rank) ? 'slowest' : '' },
      element('th', { attributes: { scope: 'row' } }, `${rank}`),
      element('td', {}, hosts[rank] ?? '–'),
      ...[...times, formatBytes(peakBytes[rank])].map((text) => element('td', { class: 'number' }, text)),
      element('td', {}, bar),
    );
  });
  const heads = columns.map((text, column) =>
    element('th', { class: isNumber(column) ? 'number' : '', attributes: { scope: 'col' } }, text),
  );
  const table = [element('thead', {}, element('tr', {}, ...heads)), element('tbody', {}, ...rows)];
  return element(
    'section',
    { class: 'part' },
    element('h3', {}, 'Ranks'),
    element('p', { class: slow.length === 0 ? 'muted' : 'error-text' }, formatVerdict(ranks)),
    element(
      'p',
      { class: 'muted' },
      `Means of a step, of the interval up to step ${formatNumber(iteration)}.`,
    ),
    element(
      'div',
      { class: 'scroll', attributes: { tabindex: 0, role: 'group', 'aria-label': 'Ranks' } },
      element('table', {}, ...table),
    ),
  );
}

/** Returns a message that names the rank for which the other ranks wait. */
function formatVerdict({ computeMs, hosts, slow }: RanksOfRun): string {
  const named = (rank: number): string => `Rank ${rank}${hosts[rank] == null ? '' : ` on ${hosts[rank]}`}`;
  if (slow.length > 0) {
    return `${slow.map(named).join(', ')}: slower than the others for several intervals, which wait for it.`;
  }
  const times = computeMs.map((ms) => ms ?? 0);
  return `${named(times.indexOf(Math.max(...times)))} computes longest. No rank is slow for several intervals.`;
}

const seconds = (ms: number | null): string => formatSeconds(ms === null ? null : ms / 1000);

/**
 * Returns a bar with a rank's computing and waiting time, as fractions of the longest step. The bar is an
 * SVG, because the page's content security policy allows widths as attributes but not as styles.
 */
function drawBar({
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
    part.setAttribute('x', String(100 * from));
    part.setAttribute('width', String(100 * width));
    part.setAttribute('height', '8');
    drawn.append(part);
  }
  const bar = element('div', { class: 'bar' });
  bar.append(drawn);
  return bar;
}
