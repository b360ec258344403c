import type { Axis } from '../src/api-types.js';
import type { Scale, View } from './state.js';

const axes: readonly Axis[] = ['iteration', 'tokens', 'seconds'];
const scales: readonly Scale[] = ['typical', 'all', 'log'];

/** Parses the view from the query of a URL. Missing or invalid properties are left out. */
export function parseView(search: string): Partial<View> {
  const query = new URLSearchParams(search);
  const axis = axes.find((name) => name === query.get('axis'));
  const scale = scales.find((name) => name === query.get('scale'));
  const smoothing = numberIn(query, 'smoothing');
  const [from, to] = [numberIn(query, 'from'), numberIn(query, 'to')];
  const layer = numberIn(query, 'layer');
  const filter = query.get('filter') ?? '';
  const isRange = from !== undefined && to !== undefined && from < to;
  return {
    ...(query.has('run') ? { chosen: query.getAll('run').filter((id) => id !== '') } : {}),
    ...(query.has('focus') ? { chosenFocus: query.get('focus')! } : {}),
    ...(axis === undefined ? {} : { axis }),
    ...(scale === undefined ? {} : { scale }),
    ...(smoothing !== undefined && smoothing > 0 && smoothing < 1 ? { smoothing } : {}),
    ...(isRange ? { range: [from, to] } : {}),
    ...(filter === '' ? {} : { filter }),
    ...(query.get('events') === 'off' ? { showsMarks: false } : {}),
    ...(query.get('reported') === 'on' ? { showsReported: true } : {}),
    ...(query.has('tab') ? { tab: query.get('tab')! } : {}),
    ...(layer !== undefined && Number.isSafeInteger(layer) && layer >= 0 ? { layer } : {}),
  };
}

/** Returns the query for a view: the properties that differ from the initial view. */
export function formatAddress(view: View): string {
  const query = new URLSearchParams();
  for (const id of view.chosen ?? []) query.append('run', id);
  if (view.chosen?.length === 0) query.append('run', '');
  if (view.chosenFocus !== undefined) query.set('focus', view.chosenFocus);
  if (view.filter !== '') query.set('filter', view.filter);
  if (view.axis !== 'iteration') query.set('axis', view.axis);
  if (view.scale !== 'typical') query.set('scale', view.scale);
  if (view.smoothing > 0) query.set('smoothing', String(Number(view.smoothing.toPrecision(6))));
  const [from, to] = view.range ?? [];
  if (from !== undefined) query.set('from', String(from));
  if (to !== undefined) query.set('to', String(to));
  if (!view.showsMarks) query.set('events', 'off');
  if (view.showsReported) query.set('reported', 'on');
  if (view.tab !== undefined) query.set('tab', view.tab);
  if (view.layer !== undefined) query.set('layer', String(view.layer));
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

function numberIn(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name)?.trim() ?? '';
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : undefined;
}
