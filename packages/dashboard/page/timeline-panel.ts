import type { RunDetails, TraceAnswer } from '../src/api-types.js';
import { element } from './element.js';
import { formatNumber, formatSeconds } from './format.js';
import { formatPicturePath, getTrace } from './server.js';

/** The panel with pictures of profiled steps, each above a simulated step. */
export class TimelinePanel {
  readonly panel = element('section', { class: 'part' });
  #shown = '';

  constructor() {
    this.panel.hidden = true;
  }

  show({ id, traceRevision }: RunDetails): void {
    const wanted = traceRevision === null ? '' : `${id} ${traceRevision}`;
    if (wanted === this.#shown) return;
    this.#shown = wanted;
    this.panel.hidden = wanted === '';
    if (wanted === '') return;
    getTrace(id).then(
      (trace) => {
        if (this.#shown === wanted) this.#draw(id, trace);
      },
      (error: Error) =>
        this.panel.replaceChildren(title(), element('p', { class: 'error-text' }, error.message)),
    );
  }

  #draw(id: string, { pipelines }: TraceAnswer): void {
    const pictures = pipelines.flatMap(({ pipeline, numSteps, measured, simulated }, index) => {
      const say = ({ makespan, bubbleFraction }: typeof measured): string =>
        `${formatSeconds(makespan / 1000)}, bubble ${formatNumber(100 * bubbleFraction, 3)} %`;
      const text =
        `Pipeline ${pipeline}, the median of ${numSteps} profiled step${numSteps === 1 ? '' : 's'}: ` +
        `measured ${say(measured)}; simulated with the median times of its passes ${say(simulated)}.`;
      const picture = element('img', { attributes: { src: formatPicturePath(id, index), alt: text } });
      const label = { tabindex: 0, role: 'group', 'aria-label': `Timeline of pipeline ${pipeline}` };
      return [
        element('p', { class: 'muted' }, text),
        element('div', { class: 'scroll', attributes: label }, picture),
      ];
    });
    this.panel.replaceChildren(title(), ...pictures);
  }
}

const title = (): HTMLElement => element('h3', {}, 'Timeline of a step');
