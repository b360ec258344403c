import type uPlot from 'uplot';
import { element } from './element.js';
import type { RunMark } from './marks-of-shown.js';

/** A line is meant where the pointer is at most so many pixels from it. */
const reach = 5;
/** More of them at one place are counted. */
const mostLabels = 4;

/** The label of the lines where the pointer is. */
export class MarkLabel {
  readonly #label = element('div', { class: 'mark-label' });

  constructor(plot: uPlot) {
    this.#label.hidden = true;
    plot.over.append(this.#label);
  }

  show(plot: uPlot, marks: readonly RunMark[]): void {
    // the cursors of the other charts move along
    const left = plot.over.matches(':hover') ? (plot.cursor.left ?? -1) : -1;
    const near = left < 0 ? [] : marks.filter(({ x }) => Math.abs(plot.valToPos(x, 'x') - left) <= reach);
    this.#label.hidden = near.length === 0;
    if (near.length === 0) return;
    const lines = near.slice(0, mostLabels).map((mark) => element('p', {}, mark.label));
    const more = near.length - lines.length;
    this.#label.replaceChildren(...lines, ...(more > 0 ? [element('p', {}, `and ${more} more`)] : []));
    const isRight = left > plot.over.clientWidth / 2;
    this.#label.style.left = isRight ? '' : `${left + 8}px`;
    this.#label.style.right = isRight ? `${plot.over.clientWidth - left + 8}px` : '';
  }
}
