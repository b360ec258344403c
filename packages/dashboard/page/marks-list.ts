import { element } from './element.js';
import { marksOfShown } from './marks-of-shown.js';
import type { RunData } from './run-data.js';
import type { State } from './state.js';

/** The latest are listed. */
const mostItems = 200;

/** In words what is marked on the curves: for screen readers and without a pointer. */
export class MarksList {
  readonly #state: State;
  readonly #summary = element('summary');
  readonly #list = element('ul', { attributes: { 'aria-label': 'Events on the curves' } });
  readonly #details = element('details', { class: 'panel marks' }, this.#summary, this.#list);
  #key = '';

  constructor(parent: HTMLElement, state: State) {
    this.#state = state;
    parent.append(this.#details);
  }

  draw(data: RunData): void {
    const marks = marksOfShown(this.#state, data);
    const texts = marks.slice(-mostItems);
    const key = JSON.stringify([marks.length, texts]);
    if (key === this.#key) return;
    this.#key = key;
    this.#details.hidden = marks.length === 0;
    this.#summary.textContent = `Events on the curves: ${marks.length}`;
    const items = texts.map(({ kind, label }) =>
      element('li', {}, element('i', { class: `swatch dot mark-${kind}` }), element('span', {}, label)),
    );
    this.#list.replaceChildren(...items.toReversed());
  }
}
