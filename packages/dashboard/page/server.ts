import type { ExpertsAnswer, RunDetails, RunsEvent, SeriesAnswer, TraceAnswer } from '../src/api-types.js';
import { listenWhileVisible } from './listen.js';

/** Requests a path of the server. Paths are relative, so that the address keeps its token, if it has one. */
async function get<Answer>(path: string): Promise<Answer> {
  const response = await fetch(path);
  if (!response.ok) throw new Error((await response.text()).trim());
  return (await response.json()) as Answer;
}

const formatPath = (id: string): string => `api/runs/${encodeURIComponent(id)}`;

export const getDetails = (id: string): Promise<RunDetails> => get(formatPath(id));
export const getTrace = (id: string): Promise<TraceAnswer> => get(`${formatPath(id)}/trace`);
export const getExperts = (id: string, layer: number | undefined): Promise<ExpertsAnswer> =>
  get(`${formatPath(id)}/experts${layer === undefined ? '' : `?layer=${layer}`}`);
export const formatPicturePath = (id: string, index: number): string =>
  `${formatPath(id)}/trace/${index}.svg`;

export function getSeries(id: string, query: Readonly<Record<string, string>>): Promise<SeriesAnswer> {
  return get(`${formatPath(id)}/series?${new URLSearchParams(query)}`);
}

export interface EventListeners {
  readonly onRuns: (event: RunsEvent) => void;
  readonly onConnected: (isConnected: boolean) => void;
}

/** Listens to the server's events. If the connection is lost, the browser reconnects automatically. */
export function listen({ onRuns, onConnected }: EventListeners): void {
  const open = (): EventSource => {
    const source = new EventSource('api/events');
    source.onopen = () => onConnected(true);
    source.onerror = () => onConnected(false);
    source.onmessage = ({ data }) => onRuns(JSON.parse(data as string) as RunsEvent);
    return source;
  };
  listenWhileVisible({ page: document, open, look: () => get('api/runs'), onRuns });
}
