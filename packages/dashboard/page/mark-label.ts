import type uPlot from 'uplot';
import type { MarkKind, MarkOfRun } from '../src/api-types.js';
import { element } from './element.js';
import { formatNumber } from './format.js';
import { findGravest, gravity, type MarkGroup } from './mark-rail.js';

/** The largest distance in pixels at which the pointer selects a group of marks. */
const reach = 8;
const mostLines = 2;

/**
 * A label with the events at the pointer. It has at most two lines in the space below a chart, where it
 * covers neither curves nor values.
 */
export class MarkLabel {
  readonly element = element('div', { class: 'mark-label' });

  constructor() {
    this.element.hidden = true;
  }

  hide(): void {
    this.element.hidden = true;
  }

  /**
   * Shows the events at the pointer. `left` is the pointer's distance from the left edge of the plot, in
   * pixels.
   */
  show(
    plot: uPlot,
    { groups, left }: { readonly groups: readonly MarkGroup[]; readonly left: number },
  ): void {
    const distance = (group: MarkGroup): number => Math.abs(group.left - left);
    const group = groups.reduce<MarkGroup | undefined>(
      (best, one) =>
        distance(one) <= reach && (best === undefined || distance(one) < distance(best)) ? one : best,
      undefined,
    );
    this.element.hidden = group === undefined;
    if (group === undefined) return;
    this.element.replaceChildren(...listLines(group.marks).map((line) => element('p', {}, line)));
    const panel = this.element.parentElement!;
    const start = plot.over.getBoundingClientRect().left - panel.getBoundingClientRect().left + group.left;
    const most = panel.clientWidth - this.element.offsetWidth;
    this.element.style.left = `${Math.max(0, Math.min(start - 12, most))}px`;
  }
}

/**
 * Returns one line for each mark. If there are many marks, returns one line with the count of each kind, and
 * one line about the most severe mark.
 */
export function listLines(marks: readonly MarkOfRun[]): readonly string[] {
  if (marks.length <= mostLines) return marks.map(formatLine);
  const [first, last] = [marks[0]!.iteration, marks.at(-1)!.iteration];
  const counts = gravity
    .map((kind) => [marks.filter((mark) => mark.kind === kind).length, kind] as const)
    .filter(([count]) => count > 0)
    .map(([count, kind]) => `${count} ${markNames[kind][count === 1 ? 0 : 1]}`)
    .toReversed();
  const steps =
    first === last ? `step ${formatNumber(first)}` : `steps ${formatNumber(first)} to ${formatNumber(last)}`;
  return [`${steps}: ${counts.join(', ')}`, formatLine(findGravest(marks))];
}

/** Returns a line such as "step 1,200: checkpoint saved". */
export const formatLine = ({ iteration, text }: MarkOfRun): string =>
  `step ${formatNumber(iteration)}: ${text}`;

const markNames: Readonly<Record<MarkKind, readonly [one: string, several: string]>> = {
  checkpoint: ['checkpoint', 'checkpoints'],
  restart: ['restart', 'restarts'],
  error: ['error', 'errors'],
  spike: ['spike', 'spikes'],
  reported: ['reported spike', 'reported spikes'],
  skipped: ['step without an update', 'steps without an update'],
  rollback: ['return to a checkpoint', 'returns to a checkpoint'],
  event: ['other event', 'other events'],
};
