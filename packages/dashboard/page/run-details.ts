import type { RunDetails, RunSummary, SampleOfRun } from '../src/api-types.js';
import { configurationPanel } from './configuration-panel.js';
import { element } from './element.js';
import { formatBytes, formatNumber, formatTime } from './format.js';
import { ranksPanel } from './ranks-panel.js';
import type { RunData } from './run-data.js';
import type { State } from './state.js';
import { TimelinePanel } from './timeline-panel.js';

/** Everything of one run that is no curve: how it began and ended, checkpoints, samples, ranks, flags. */
export class RunDetailsView {
  readonly #state: State;
  readonly #heading = element('h2', { class: 'run-heading' });
  readonly #panels = element('div', { class: 'details' });
  readonly #timeline = new TimelinePanel();
  readonly #section: HTMLElement;
  #key = '';

  constructor(parent: HTMLElement, state: State) {
    this.#state = state;
    this.#section = element(
      'section',
      { attributes: { 'aria-label': 'Details of a run' } },
      this.#heading,
      this.#panels,
      this.#timeline.panel,
    );
    parent.append(this.#section);
  }

  draw(data: RunData): void {
    const { focus, runs } = this.#state;
    const summary = focus === undefined ? undefined : runs.get(focus);
    const details = focus === undefined ? undefined : data.details.get(focus);
    this.#section.hidden = summary === undefined || details === undefined;
    if (summary === undefined || details === undefined) return;
    const key = JSON.stringify([details, summary.state, data.problems.get(summary.id)]);
    if (key === this.#key) return;
    this.#key = key;
    this.#heading.replaceChildren(
      element('span', {}, summary.id),
      element('span', { class: `state ${summary.state}` }, summary.state),
    );
    const isOpen = this.#panels.querySelector('details')?.open === true;
    const panels = [
      problemsPanel([
        ...details.problems,
        ...(data.problems.has(summary.id) ? [data.problems.get(summary.id)!] : []),
      ]),
      notesPanel(details),
      startsPanel(details, summary),
      eventsPanel(details),
      checkpointsPanel(details),
      ranksPanel(details.ranks),
      samplesPanel(details),
      configurationPanel(details, { isOpen }),
    ];
    this.#panels.replaceChildren(...panels.filter((panel) => panel !== undefined));
    this.#timeline.show(details);
  }
}

function panel(title: string, ...children: readonly HTMLElement[]): HTMLElement {
  return element('section', { class: 'panel' }, element('h3', {}, title), ...children);
}

function problemsPanel(problems: readonly string[]): HTMLElement | undefined {
  if (problems.length === 0) return undefined;
  return panel('Not readable', ...problems.map((text) => element('p', { class: 'error-text' }, text)));
}

function notesPanel({ notes }: RunDetails): HTMLElement | undefined {
  if (notes.length === 0) return undefined;
  return panel('Notes', ...notes.map((text) => element('p', {}, text)));
}

function startsPanel({ starts }: RunDetails, { state }: RunSummary): HTMLElement | undefined {
  if (starts.length === 0) return undefined;
  const items = starts.map(({ time, host, iteration, end }, index) => {
    const isLast = index === starts.length - 1;
    const verb = index === 0 && iteration === 0 ? 'Started' : `Went on from step ${formatNumber(iteration)}`;
    const ended =
      end === null
        ? isLast && state === 'running'
          ? 'running'
          : 'its process was killed: no end is recorded'
        : `${endings[end.reason] ?? `stopped (${end.reason})`} at step ${formatNumber(end.iteration)}, ${formatTime(end.time)}`;
    const error = end?.error ?? undefined;
    return element(
      'li',
      { class: end?.reason === 'failed' || (end === null && ended !== 'running') ? 'failed' : '' },
      element('p', {}, element('strong', {}, verb), ` on ${host}, ${formatTime(time)}`),
      element('p', { class: 'muted' }, ended),
      error === undefined ? undefined : element('p', { class: 'error-text' }, error),
    );
  });
  const restarts = starts.length === 1 ? '' : ` · ${starts.length}`;
  return panel(`Starts and ends${restarts}`, element('ol', { class: 'timeline' }, ...items));
}

const endings: Readonly<Record<string, string>> = {
  done: 'finished',
  'early-stopping': 'ended early: the validation loss had stopped falling',
  failed: 'failed',
  'exit-interval': 'stopped by --exit-interval',
  deadline: 'stopped at its deadline',
  data: 'stopped: no data left',
};

function eventsPanel({ events }: RunDetails): HTMLElement | undefined {
  if (events.length === 0) return undefined;
  const items = events.slice(0, 30).map(({ type, iteration, text }) => {
    const what = element('strong', {}, `${type.replaceAll(/[-_]/g, ' ')} at step ${formatNumber(iteration)}`);
    return element('li', {}, what, element('p', { class: 'muted' }, text));
  });
  return panel('Events', element('ul', { class: 'plain' }, ...items));
}

function checkpointsPanel({ checkpoints }: RunDetails): HTMLElement {
  if (checkpoints.length === 0) {
    return panel('Checkpoints', element('p', { class: 'empty' }, 'None is saved yet.'));
  }
  const rows = checkpoints
    .toReversed()
    .map(({ iteration, bytes, time }) =>
      element(
        'tr',
        {},
        element('td', { class: 'number' }, formatNumber(iteration)),
        element('td', { class: 'number' }, formatBytes(bytes)),
        element('td', {}, formatTime(time)),
      ),
    );
  const heads = ['Step', 'Size', 'Saved'].map((text, index) =>
    element('th', { class: index < 2 ? 'number' : '', attributes: { scope: 'col' } }, text),
  );
  const table = element(
    'table',
    {},
    element('thead', {}, element('tr', {}, ...heads)),
    element('tbody', {}, ...rows),
  );
  const label = { tabindex: 0, role: 'group', 'aria-label': 'Checkpoints' };
  return panel('Checkpoints', element('div', { class: 'scroll short', attributes: label }, table));
}

/** What the model was given and, apart from it, what it wrote; without the label, which is above it. */
function contentOf({ text, label, prompt, completion }: SampleOfRun): readonly (HTMLElement | string)[] {
  if (prompt !== null && completion !== null) {
    return [element('span', { class: 'muted' }, prompt), element('span', {}, completion)];
  }
  const start = `${label}:\n`;
  return [label !== null && text.startsWith(start) ? text.slice(start.length) : text];
}

function samplesPanel({ samples }: RunDetails): HTMLElement | undefined {
  if (samples.length === 0) return undefined;
  const items = samples.slice(0, 10).map((sample) => {
    const { iteration, label } = sample;
    const what = label === null ? '' : ` · ${label}`;
    return element(
      'li',
      {},
      element('p', { class: 'muted' }, `step ${formatNumber(iteration)}${what}`),
      element('pre', { class: 'sample' }, ...contentOf(sample)),
    );
  });
  return panel('Samples', element('ul', { class: 'plain' }, ...items));
}
