import { MtlError } from '@mtl/errors';
import type { Axis, ExpertsAnswer, SeriesAnswer } from './api-types.js';
import type { TraceOfRun } from './read-trace-of-run.js';
import { HttpProblem, textOfError } from './respond.js';
import type { RunFolder } from './run-folder.js';
import type { SeriesQuery } from './run-index.js';
import type { RunsFolder } from './runs-folder.js';

/** The response to a request. */
export interface Answer {
  readonly type: string;
  readonly body: string;
}

const json = (value: unknown): Answer => ({ type: 'application/json', body: JSON.stringify(value) });

/**
 * Answers a request for data:
 *
 * - `/api/runs`: all runs
 * - `/api/runs/ID`: all information about one run except its curves
 * - `/api/runs/ID/series?names=...`: curves (see `readSeriesQuery`)
 * - `/api/runs/ID/experts?layer=N`: loads of experts of all layers, and of layer N over time
 * - `/api/runs/ID/trace`: profiled steps; `/api/runs/ID/trace/N.svg`: their picture for pipeline N
 *
 * @throws HttpProblem 404 for anything else, 400 for an invalid query
 */
export async function answerApi(folder: RunsFolder, { pathname, searchParams }: URL): Promise<Answer> {
  const [, api, runs, id, what, picture, ...rest] = pathname.split('/');
  if (api !== 'api' || runs !== 'runs' || rest.length > 0) throw notFound(pathname);
  if (id === undefined) {
    await folder.refresh();
    return json({ directory: folder.directory, runs: folder.summaries });
  }
  const name = decoded(id);
  if (folder.run(name) === undefined) await folder.refresh();
  const run = folder.run(name);
  if (run === undefined) throw new HttpProblem(404, `there is no run ${name}`);
  if (what === undefined) return json(await run.details());
  if (what === 'series' && picture === undefined) return json(await answerSeries(run, name, searchParams));
  if (what === 'experts' && picture === undefined) return json(await answerExperts(run, searchParams));
  if (what === 'trace') return await answerTrace(run, picture);
  throw notFound(pathname);
}

const notFound = (path: string): HttpProblem => new HttpProblem(404, `there is no ${path}`);

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new HttpProblem(400, 'the path is not encoded as paths are');
  }
}

async function answerSeries(run: RunFolder, id: string, query: URLSearchParams): Promise<SeriesAnswer> {
  const queries = readSeriesQuery(query);
  const index = await run.index();
  const found = queries.flatMap((one) => {
    const series = index.series(one);
    return series === undefined ? [] : [[one.name, series] as const];
  });
  const marks = await run.marks(queries[0]!.axis);
  return { id, revision: run.summary.revision, series: Object.fromEntries(found), marks };
}

async function answerExperts(run: RunFolder, query: URLSearchParams): Promise<ExpertsAnswer> {
  const layer = query.get('layer');
  if (layer !== null && !/^\d{1,6}$/.test(layer)) {
    throw new HttpProblem(400, `layer: ${layer}; expected the number of a layer`);
  }
  const index = await run.index();
  const answer = index.loadsOfExperts(layer === null ? undefined : Number(layer));
  if (answer === undefined) throw new HttpProblem(404, 'the run has no loads of experts');
  return answer;
}

async function answerTrace(run: RunFolder, picture: string | undefined): Promise<Answer> {
  let trace: TraceOfRun | undefined;
  try {
    trace = await run.trace();
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    throw new HttpProblem(404, textOfError(error));
  }
  if (trace === undefined) throw new HttpProblem(404, 'the run folder has no trace.json');
  if (picture === undefined) return json(trace.answer);
  const body = trace.pictures[Number(/^(\d{1,6})\.svg$/.exec(picture)?.[1] ?? Number.NaN)];
  if (body === undefined) throw new HttpProblem(404, `the trace has no picture ${picture}`);
  return { type: 'image/svg+xml', body };
}

const axes: readonly Axis[] = ['iteration', 'tokens', 'seconds'];
const mostNames = 64;

/**
 * Parses the query for curves: `names` (separated by commas), `axis`, `from`, `to`, `points`, `smoothing`,
 * `bands` (the names of curves to be returned as a median with a band).
 *
 * @throws HttpProblem 400
 */
function readSeriesQuery(query: URLSearchParams): readonly SeriesQuery[] {
  const names = (query.get('names') ?? '').split(',').filter((name) => name !== '');
  if (names.length === 0 || names.length > mostNames) {
    throw new HttpProblem(400, `names: ${names.length} curves; expected 1 to ${mostNames}`);
  }
  const axis = axes.find((name) => name === (query.get('axis') ?? 'iteration'));
  if (axis === undefined) throw new HttpProblem(400, `axis: expected one of ${axes.join(', ')}`);
  const numPoints = numberIn(query, 'points', { least: 10, most: 20_000 }) ?? 1000;
  const smoothing = numberIn(query, 'smoothing', { least: 0, most: 0.9999 }) ?? 0;
  const [from, to] = [numberIn(query, 'from'), numberIn(query, 'to')];
  const bands = new Set((query.get('bands') ?? '').split(','));
  return names.map((name) => ({ name, axis, from, to, numPoints, smoothing, isBand: bands.has(name) }));
}

function numberIn(
  query: URLSearchParams,
  name: string,
  { least = -Number.MAX_VALUE, most = Number.MAX_VALUE } = {},
): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (value >= least && value <= most) return value;
  throw new HttpProblem(400, `${name}: ${text}; expected a number from ${least} to ${most}`);
}
