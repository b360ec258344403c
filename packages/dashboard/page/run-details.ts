import type { RunDetails, RunSummary, SampleOfRun, StartOfRun } from '../src/api-types.js';
import { ConfigurationPanel } from './configuration-panel.js';
import { element } from './element.js';
import { ExpertsPanel } from './experts-panel.js';
import { formatBytes, formatNumber, formatTime } from './format.js';
import { ranksPanel } from './ranks-panel.js';
import { formatClass } from './run-colours.js';
import type { RunData } from './run-data.js';
import type { State } from './state.js';
import { Tabs } from './tabs.js';
import { TimelinePanel } from './timeline-panel.js';

/**
 * The view of one run's properties other than curves: starts and ends, checkpoints, samples, ranks, flags.
 */
export class RunDetailsView {
  readonly #state: State;
  readonly #heading = element('h2', { class: 'run-heading' });
  readonly #timeline = new TimelinePanel();
  readonly #configuration = new ConfigurationPanel();
  readonly #experts: ExpertsPanel;
  readonly #tabs: Tabs;
  readonly #section: HTMLElement;
  #key = '';

  constructor(parent: HTMLElement, state: State) {
    this.#state = state;
    this.#experts = new ExpertsPanel({ onLayer: (layer) => this.#state.update({ layer }) });
    this.#tabs = new Tabs({
      label: 'Details of a run',
      onChoice: (tab) => {
        this.#state.update({ tab });
      },
    });
    this.#section = element(
      'section',
      { attributes: { 'aria-label': 'Details of a run' } },
      this.#heading,
      this.#tabs.element,
    );
    parent.append(this.#section);
  }

  draw(data: RunData): void {
    const { focus, runs } = this.#state;
    const summary = focus === undefined ? undefined : runs.get(focus);
    const details = focus === undefined ? undefined : data.details.get(focus);
    this.#section.hidden = summary === undefined || details === undefined;
    if (summary === undefined || details === undefined) return;
    this.#timeline.show(details);
    this.#configuration.show(details);
    const { tab, layer } = this.#state.view;
    this.#experts.show(details, { layer, series: data.series.get(summary.id)?.series ?? {} });
    const key = JSON.stringify([details, summary.state, data.problems.get(summary.id), tab]);
    if (key === this.#key) return;
    this.#key = key;
    this.#heading.replaceChildren(
      element('i', { class: `swatch ${formatClass(this.#state.findColour(summary.id))}` }),
      element('span', {}, summary.id),
      element('span', { class: `state ${summary.state}` }, summary.state),
    );
    const problem = data.problems.get(summary.id);
    const overview = [
      problemsPanel([...details.problems, ...(problem === undefined ? [] : [problem])]),
      notesPanel(details),
      startsPanel(details, summary),
    ].filter((part) => part !== undefined);
    const tabs: readonly (readonly [
      id: string,
      title: string,
      content: readonly (HTMLElement | undefined)[],
    ])[] = [
      ['overview', 'Overview', overview.length === 0 ? [nothingPanel()] : overview],
      ['checkpoints', `Checkpoints ${details.checkpoints.length}`, [checkpointsPanel(details)]],
      ['samples', 'Samples', [samplesPanel(details)]],
      ['events', 'Events', [eventsPanel(details)]],
      ['experts', 'Experts', [details.experts === null ? undefined : this.#experts.panel]],
      ['ranks', 'Ranks', [ranksPanel(details.ranks)]],
      ['timeline', 'Timeline of a step', [details.traceRevision === null ? undefined : this.#timeline.panel]],
      ['configuration', 'Configuration', [this.#configuration.panel]],
    ];
    const shown = tabs.flatMap(([id, title, content]) => {
      const there = content.filter((part) => part !== undefined);
      return there.length === 0 ? [] : [{ id, title, content: there }];
    });
    this.#tabs.show(shown, tab);
  }
}

function panel(title: string, ...children: readonly HTMLElement[]): HTMLElement {
  return element('section', { class: 'part' }, element('h3', {}, title), ...children);
}

const nothingPanel = (): HTMLElement =>
  element('p', { class: 'empty' }, 'This folder has no record of how the run was started.');

function problemsPanel(problems: readonly string[]): HTMLElement | undefined {
  if (problems.length === 0) return undefined;
  return panel('Not readable', ...problems.map((text) => element('p', { class: 'error-text' }, text)));
}

function notesPanel({ notes }: RunDetails): HTMLElement | undefined {
  if (notes.length === 0) return undefined;
  return panel('Notes', ...notes.map((text) => element('p', {}, text)));
}

function startsPanel(details: RunDetails, { state }: RunSummary): HTMLElement | undefined {
  const { starts } = details;
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
    const isFailure = end?.reason === 'failed' || (end === null && ended !== 'running');
    const error = end?.error ?? undefined;
    const advice = isFailure ? adviceFor(details, { end, isLast }) : [];
    return element(
      'li',
      { class: isFailure ? 'failed' : '' },
      element('p', {}, element('strong', {}, verb), ` on ${host}, ${formatTime(time)}`),
      element('p', { class: 'muted' }, ended),
      error === undefined ? undefined : element('p', { class: 'error-text' }, error),
      ...advice.map((text) => element('p', { class: 'advice' }, text)),
    );
  });
  const restarts = starts.length === 1 ? '' : ` · ${starts.length}`;
  return panel(`Starts and ends${restarts}`, element('ol', { class: 'timeline' }, ...items));
}

interface Failure {
  readonly end: StartOfRun['end'];
  /** False if the run has been started again after this failure. */
  readonly isLast: boolean;
}

/** Returns advice after a failure: the remedy of its error, and the command that continues the run. */
function adviceFor(details: RunDetails, { end, isLast }: Failure): readonly string[] {
  const remedy = end?.remedy ?? undefined;
  const killed =
    'The log of the host tells what killed the process: often its memory was full (dmesg names the process), ' +
    'or a limit of the scheduler was reached. mtl plan predicts the memory of a run.';
  return [
    ...(end === null ? [killed] : remedy === undefined ? [] : [`What to do: ${remedy}`]),
    ...(isLast ? [goingOn(details)] : []),
  ];
}

/**
 * Returns advice on how to continue a run. The continued run must load its own checkpoint instead of the
 * initial weights.
 */
function goingOn({ checkpoints, directory, flagsOfStart }: RunDetails): string {
  const newest = checkpoints.at(-1);
  if (newest === undefined) {
    return 'No checkpoint is saved: the same command begins anew. With --save-interval a run goes on from where it was.';
  }
  const from = `To go on from step ${formatNumber(newest.iteration)}`;
  const load = `--load ${quoted(directory)}`;
  if (flagsOfStart.length === 0) return `${from}, add this to the same command: ${load}`;
  const replaced = flagsOfStart.map((name) => `--${name}`).join(' and ');
  return `${from}, start the same command with ${load} in place of ${replaced}`;
}

/** Quotes a path for a shell if necessary. */
const quoted = (path: string): string =>
  /^[\w./@:+,-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;

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

function checkpointsPanel({ checkpoints, best }: RunDetails): HTMLElement {
  const isKept = checkpoints.some(({ iteration }) => iteration === best?.iteration);
  const lost =
    best === null || isKept
      ? undefined
      : `The best validation loss, ${formatNumber(best.loss)}, was at step ${formatNumber(best.iteration)}: ` +
        'no checkpoint of that step is here.';
  if (checkpoints.length === 0) {
    return panel('Checkpoints', element('p', { class: 'empty' }, 'None is saved yet.'));
  }
  const rows = checkpoints.toReversed().map(({ iteration, bytes, time }) => {
    const isBest = iteration === best?.iteration;
    const note = isBest ? `best validation loss: ${formatNumber(best?.loss)}` : '';
    return element(
      'tr',
      { class: isBest ? 'best' : '' },
      element('td', { class: 'number' }, formatNumber(iteration)),
      element('td', { class: 'number' }, formatBytes(bytes)),
      element('td', {}, formatTime(time)),
      element('td', {}, note),
    );
  });
  const heads = ['Step', 'Size', 'Saved', 'Note'].map((text, index) =>
    element('th', { class: index < 2 ? 'number' : '', attributes: { scope: 'col' } }, text),
  );
  const table = element(
    'table',
    {},
    element('thead', {}, element('tr', {}, ...heads)),
    element('tbody', {}, ...rows),
  );
  const label = { tabindex: 0, role: 'group', 'aria-label': 'Checkpoints' };
  const list = element('div', { class: 'scroll', attributes: label }, table);
  return panel('Checkpoints', ...(lost === undefined ? [] : [element('p', { class: 'muted' }, lost)]), list);
}

/** Returns the prompt and the completion in different styles, without the label, which is printed above. */
function showContent({ text, label, prompt, completion }: SampleOfRun): readonly (HTMLElement | string)[] {
  if (prompt !== null && completion !== null) {
    return [element('span', { class: 'muted' }, prompt), element('span', {}, completion)];
  }
  const start = `${label}:\n`;
  return [label !== null && text.startsWith(start) ? text.slice(start.length) : text];
}

function samplesPanel({ samples }: RunDetails): HTMLElement | undefined {
  if (samples.length === 0) return undefined;
  // Equal samples are shown once, at the position of the last equal sample.
  const groups = new Map<string, SampleOfRun[]>();
  for (const sample of samples) {
    const { label, text, prompt, completion } = sample;
    const key = JSON.stringify([label, text, prompt, completion]);
    groups.set(key, [...(groups.get(key) ?? []), sample]);
  }
  const items = [...groups.values()].map((group) => {
    const sample = group[0]!;
    const steps = group.map(({ iteration }) => formatNumber(iteration)).toReversed();
    const when = `${steps.length === 1 ? 'Step' : 'Steps'} ${steps.join(', ')}`;
    const what = sample.label === null ? undefined : element('span', { class: 'muted' }, sample.label);
    return element(
      'li',
      {},
      element('h4', { class: 'sample-step' }, when, what),
      element('pre', { class: 'sample' }, ...showContent(sample)),
    );
  });
  return panel('Samples', element('ul', { class: 'plain' }, ...items));
}
