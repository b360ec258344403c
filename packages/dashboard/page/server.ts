import type { ExpertsAnswer, RunDetails, RunsEvent, SeriesAnswer, TraceAnswer } from '../src/api-types.js';

/** Addresses are relative: they begin with the token where one is needed. */
async function get<Answer>(path: string): Promise<Answer> {
  const response = await fetch(path);
  if (!response.ok) throw new Error((await response.text()).trim());
  return (await response.json()) as Answer;
}

const pathOf = (id: string): string => `api/runs/${encodeURIComponent(id)}`;

export const getDetails = (id: string): Promise<RunDetails> => get(pathOf(id));
export const getTrace = (id: string): Promise<TraceAnswer> => get(`${pathOf(id)}/trace`);
export const getExperts = (id: string, layer: number | undefined): Promise<ExpertsAnswer> =>
  get(`${pathOf(id)}/experts${layer === undefined ? '' : `?layer=${layer}`}`);
export const pictureOf = (id: string, index: number): string => `${pathOf(id)}/trace/${index}.svg`;

export function getSeries(id: string, query: Readonly<Record<string, string>>): Promise<SeriesAnswer> {
  return get(`${pathOf(id)}/series?${new URLSearchParams(query)}`);
}

/** Between two looks of a hidden page. */
export const glanceMs = 15_000;

export interface EventListeners {
  readonly onRuns: (event: RunsEvent) => void;
  readonly onConnected: (isConnected: boolean) => void;
}

/**
 * Listens to the server while the page is visible: a browser has few connections, and a hidden page keeps
 * none. It asks for the list of runs now and then, as the title of its tab stays in sight. The browser
 * connects again by itself when the server was away.
 */
export function listen({ onRuns, onConnected }: EventListeners): void {
  let source: EventSource | undefined;
  let glances: ReturnType<typeof setInterval> | undefined;
  const glance = async (): Promise<void> => {
    try {
      const { directory, runs } = await get<Omit<RunsEvent, 'removed'>>('api/runs');
      if (document.hidden) onRuns({ directory, runs, removed: [] });
    } catch {
      // the stream tells that the server is away as soon as the page is visible
    }
  };
  const update = (): void => {
    if (document.hidden) {
      source?.close();
      source = undefined;
      glances ??= setInterval(() => void glance(), glanceMs);
      return;
    }
    clearInterval(glances);
    glances = undefined;
    if (source !== undefined) return;
    source = new EventSource('api/events');
    source.onopen = () => onConnected(true);
    source.onerror = () => onConnected(false);
    source.onmessage = ({ data }) => onRuns(JSON.parse(data as string) as RunsEvent);
  };
  document.addEventListener('visibilitychange', update);
  update();
}
