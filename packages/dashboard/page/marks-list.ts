import { element } from './element.js';
import { formatLine } from './mark-label.js';
import { marksOfFocus, type RunData } from './run-data.js';
import type { State } from './state.js';

/** The largest number of marks in the list; the latest marks are listed. */
const mostItems = 200;

/** The list of marks as text, for screen readers and for use without a pointer. */
export class MarksList {
  readonly #state: State;
  readonly #summary = element('summary');
  readonly #list = element('ul', { attributes: { 'aria-label': 'Events' } });
  readonly #details = element('details', { class: 'panel marks' }, this.#summary, this.#list);
  #key = '';

  constructor(parent: HTMLElement, state: State) {
    this.#state = state;
    parent.append(this.#details);
  }

  draw(data: RunData): void {
    const marks = marksOfFocus(this.#state, data);
    const texts = marks.slice(-mostItems);
    const key = JSON.stringify([this.#state.focus, marks.length, texts]);
    if (key === this.#key) return;
    this.#key = key;
    this.#details.hidden = marks.length === 0;
    this.#summary.textContent = `Events of ${this.#state.focus ?? ''}: ${marks.length}`;
    const items = texts.map((mark) =>
      element(
        'li',
        {},
        element('i', { class: `tick mark-${mark.kind}` }),
        element('span', {}, formatLine(mark)),
      ),
    );
    this.#list.replaceChildren(...items.toReversed());
  }
}
