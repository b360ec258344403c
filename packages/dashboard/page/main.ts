import { formatAddress, parseView } from './address.js';
import { Charts } from './charts.js';
import { Differences } from './differences.js';
import { element } from './element.js';
import { MarksList } from './marks-list.js';
import { RunData } from './run-data.js';
import { RunDetailsView } from './run-details.js';
import { RunList } from './run-list.js';
import { listen } from './server.js';
import { State } from './state.js';
import { formatTitle } from './title.js';
import { addToolbar } from './toolbar.js';

const byId = (id: string): HTMLElement => document.getElementById(id)!;

const state = new State(parseView(location.search));
const main = byId('main');
const curves = element('section', { attributes: { id: 'curves', 'aria-label': 'Curves', tabindex: -1 } });
curves.append(element('h2', { class: 'visually-hidden' }, 'Curves'));
main.append(curves);
new RunList(byId('sidebar'), state);
addToolbar(curves, state);
const charts = new Charts(curves, state);
const marks = new MarksList(curves, state);
const differences = new Differences(main, state);
const details = new RunDetailsView(main, state);

const data = new RunData(state, { numPoints: () => charts.numPoints, onData: drawSoon });
let isDrawing = false;

/** Draws the page at the browser's next frame, once for all changes until then. */
function drawSoon(): void {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    for (const part of [charts, marks, differences, details]) part.draw(data);
  });
}

state.onChange(drawSoon);
state.onChange(showAddress);
// sets the title immediately and not in the next frame, because a hidden page has no frames although its tab
// is visible
state.onChange(() => {
  document.title = formatTitle(state.focus === undefined ? undefined : state.runs.get(state.focus));
});

/** Writes the current view into the page's address, so that users can share the address. */
function showAddress(): void {
  const query = formatAddress(state.view);
  if (query !== location.search)
    history.replaceState(null, '', `${location.pathname}${query}${location.hash}`);
}

listen({
  onConnected: (isConnected) => state.setConnected(isConnected),
  onRuns: (event) => {
    const failed = event.runs.filter(
      ({ id, state: now }) => now === 'failed' && state.runs.get(id)?.state === 'running',
    );
    state.receive(event);
    if (failed.length === 0) return;
    byId('announcements').textContent = failed
      .map(({ id, error }) => `${id} failed${error === null ? '' : `: ${error}`}`)
      .join('. ');
  },
});
