import type { RunSummary } from '../src/api-types.js';
import { trainingLoss, validationLoss } from './chart-kinds.js';
import { element } from './element.js';
import { formatCount, formatNumber, formatSeconds } from './format.js';
import { formatClass } from './run-colours.js';
import type { State } from './state.js';

/** A run of the list. */
interface Row {
  readonly run: RunSummary;
  /** True if the run's curves are shown. */
  readonly isShown: boolean;
  /** True if the run's details are shown. */
  readonly isFocus: boolean;
}

/** The list of runs. It marks runs whose curves are shown, and the run whose details are shown. */
export class RunList {
  readonly #state: State;
  readonly #folder = element('p', { class: 'folder' });
  readonly #connection = element('p', { class: 'connection', attributes: { role: 'status' } });
  readonly #filter = element('input', {
    class: 'filter',
    attributes: { type: 'search', placeholder: 'Filter runs', 'aria-label': 'Filter runs by name' },
    on: { input: () => this.#state.update({ filter: this.#filter.value }) },
  });
  readonly #nothing = element('p', { class: 'empty', attributes: { role: 'status' } });
  readonly #lost = element(
    'p',
    { class: 'error-text' },
    'The server does not answer. Start mtl watch again on the same port: this page goes on by itself.',
  );
  readonly #list = element('ul', { class: 'runs' });
  readonly #items = new Map<string, { readonly item: HTMLLIElement; key: string }>();

  constructor(parent: HTMLElement, state: State) {
    this.#state = state;
    this.#filter.value = state.view.filter;
    this.#lost.hidden = true;
    const title = element('h1', {}, 'mtl watch');
    const head = element('header', { class: 'brand' }, title, this.#connection);
    parent.append(head, this.#folder, this.#lost, this.#filter, this.#nothing, this.#list);
    state.onChange(() => this.#update());
  }

  #update(): void {
    // each property is read once, because some getters sort all runs
    const { runs, listed, focus, directory, isConnected, view } = this.#state;
    const shown = new Set(this.#state.shown);
    this.#folder.textContent = directory.split(/[/\\]/).at(-1) ?? '';
    this.#folder.title = directory;
    this.#connection.textContent = isConnected ? 'live' : 'no connection';
    this.#connection.dataset.state = isConnected ? 'live' : 'lost';
    this.#lost.hidden = isConnected;
    this.#filter.hidden = runs.size < 8 && view.filter === '';
    const isWithoutMatch = runs.size > 0 && listed.length === 0;
    this.#nothing.textContent = isWithoutMatch ? noRunMatches(view.filter) : '';
    this.#nothing.hidden = !isWithoutMatch;
    const listedIds = new Set(listed.map(({ id }) => id));
    for (const [id, { item }] of this.#items) {
      if (listedIds.has(id)) continue;
      item.remove();
      this.#items.delete(id);
    }
    for (const [index, run] of listed.entries()) {
      this.#place({ run, index, isShown: shown.has(run.id), isFocus: run.id === focus });
    }
  }

  /**
   * Adds or updates the item of a run. An item that has not changed is not replaced, so that it keeps the
   * keyboard's focus.
   */
  #place({ index, ...row }: Row & { readonly index: number }): void {
    const { run, isShown, isFocus } = row;
    const key = JSON.stringify([run.revision, isShown, isFocus]);
    const known = this.#items.get(run.id);
    const item = known?.item ?? element('li');
    if (known?.key !== key) {
      const control = document.activeElement?.getAttribute('data-control');
      const hadFocus = item.contains(document.activeElement);
      item.replaceChildren(...this.#contents(row));
      if (hadFocus) item.querySelector<HTMLElement>(`[data-control="${control}"]`)?.focus();
    }
    item.className = `run${isFocus ? ' focused' : ''}${isShown ? '' : ' not-shown'}`;
    this.#items.set(run.id, { item, key });
    const there = this.#list.children[index];
    if (there !== item) this.#list.insertBefore(item, there ?? null);
  }

  #contents({ run, isShown, isFocus }: Row): readonly HTMLElement[] {
    const { id } = run;
    const box = element('input', {
      attributes: { type: 'checkbox', 'data-control': 'show', 'aria-label': `Curves of ${id}` },
      on: { change: (event) => this.#state.show(id, (event.target as HTMLInputElement).checked) },
    });
    box.checked = isShown;
    box.className = `swatch ${formatClass(this.#state.findColour(id))}`;
    const name = element(
      'button',
      {
        class: 'name',
        attributes: {
          type: 'button',
          'data-control': 'focus',
          'aria-pressed': isFocus ? 'true' : 'false',
          title: id,
        },
        on: { click: () => this.#state.update({ chosenFocus: id }) },
      },
      id,
    );
    const state = element('span', { class: `state ${run.state}` }, run.state);
    const first = element('div', { class: 'line' }, box, name, state);
    return [first, showProgress(run), showFigures(run)];
  }
}

export const noRunMatches = (filter: string): string =>
  `No run has “${filter.trim()}” in its name. Clear the filter to see all runs.`;

function showProgress({ iteration, trainIterations }: RunSummary): HTMLElement {
  const most = Math.max(1, trainIterations ?? iteration);
  const label = `${formatNumber(iteration)} of ${formatNumber(trainIterations)} steps`;
  return element('progress', {
    attributes: { max: most, value: Math.min(iteration, most), 'aria-label': label },
  });
}

/** Returns elements with labels and values of a run's progress. */
function showFigures({ state, ...run }: RunSummary): HTMLElement {
  const rest = ((run.trainIterations ?? 0) - run.iteration) * ((run.stepMs ?? Number.NaN) / 1000);
  const isRunning = state === 'running';
  const of = run.trainIterations === null ? '' : ` / ${formatNumber(run.trainIterations)}`;
  const figures: readonly (readonly [label: string, value: string | undefined])[] = [
    ['step', `${formatNumber(run.iteration)}${of}`],
    [trainingLoss.toLowerCase(), run.loss === null ? undefined : formatNumber(run.loss)],
    [
      validationLoss.toLowerCase(),
      run.validationLoss === null ? undefined : formatNumber(run.validationLoss),
    ],
    ['tokens/s', isRunning && run.tokensPerSecond !== null ? formatCount(run.tokensPerSecond) : undefined],
    ['left', isRunning && rest > 0 ? formatSeconds(rest) : undefined],
  ];
  const cells = figures.flatMap(([label, value]) =>
    value === undefined ? [] : [element('div', {}, element('dt', {}, label), element('dd', {}, value))],
  );
  return element('dl', { class: 'figures' }, ...cells);
}
