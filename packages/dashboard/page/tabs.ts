import { element } from './element.js';

export interface Tab {
  readonly id: string;
  readonly title: string;
  readonly content: readonly HTMLElement[];
}

/** Panels with a row of tabs. One panel is shown, and the arrow keys select the next panel. */
export class Tabs {
  readonly element: HTMLElement;
  readonly #row: HTMLElement;
  readonly #panel = element('div', {
    class: 'tab-panel panel',
    attributes: { role: 'tabpanel', id: 'tab-panel', tabindex: 0 },
  });
  readonly #onChoice: (id: string) => void;
  #key = '';

  constructor({ label, onChoice }: { readonly label: string; readonly onChoice: (id: string) => void }) {
    this.#onChoice = onChoice;
    this.#row = element('div', {
      class: 'tabs',
      attributes: { role: 'tablist', 'aria-label': label },
      on: { keydown: (event) => this.#onKey(event as KeyboardEvent) },
    });
    this.element = element('div', {}, this.#row, this.#panel);
  }

  /** Shows the tab with the id `chosen`, or the first tab if no tab has this id. */
  show(tabs: readonly Tab[], chosen: string | undefined): void {
    const shown = tabs.find(({ id }) => id === chosen) ?? tabs[0];
    if (shown === undefined) return;
    // buttons that have not changed are not replaced, so that they keep the keyboard's focus
    const key = JSON.stringify(tabs.map(({ id, title }) => [id, title]));
    if (key !== this.#key) {
      this.#key = key;
      const focused = this.#row.contains(document.activeElement) ? document.activeElement?.id : undefined;
      this.#row.replaceChildren(...tabs.map((tab) => this.#button(tab)));
      if (focused !== undefined) document.getElementById(focused)?.focus();
    }
    for (const button of this.#row.children) {
      const isShown = button.id === `tab-${shown.id}`;
      button.setAttribute('aria-selected', String(isShown));
      button.setAttribute('tabindex', isShown ? '0' : '-1');
    }
    this.#panel.setAttribute('aria-labelledby', `tab-${shown.id}`);
    this.#panel.replaceChildren(...shown.content);
  }

  #button({ id, title }: Tab): HTMLElement {
    const attributes = { type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': 'tab-panel' };
    return element('button', { attributes, on: { click: () => this.#onChoice(id) } }, title);
  }

  #onKey(event: KeyboardEvent): void {
    const buttons = [...this.#row.children] as HTMLElement[];
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    const next: Readonly<Record<string, number>> = {
      ArrowLeft: (at - 1 + buttons.length) % buttons.length,
      ArrowRight: (at + 1) % buttons.length,
      Home: 0,
      End: buttons.length - 1,
    };
    const to = next[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    buttons[to]!.focus();
    buttons[to]!.click();
  }
}
