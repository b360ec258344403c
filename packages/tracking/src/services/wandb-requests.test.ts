import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RecordedRequest, RecordingServer, wandbAnswer } from '../../test/support/recording-server.js';
import { trackingCredentials } from './open-deliveries.js';
import { sendKeptMetrics } from './send-kept-metrics.js';
import { writeTrackingState } from './tracking-state.js';

interface StreamedFile {
  readonly offset: number;
  readonly content: ReadonlyArray<Readonly<Record<string, unknown>>>;
}

/**
 * A request of the real client, in which values that depend on the machine are replaced by their types (see
 * tooling/fixtures).
 */
interface RealRequest {
  readonly path: string;
  readonly authorization: string;
  readonly operation?: string;
  readonly keys?: readonly string[];
  readonly input?: Readonly<Record<string, string>>;
  readonly variables?: Readonly<Record<string, string>>;
  readonly config?: unknown;
  readonly files?: Readonly<Record<string, StreamedFile>>;
  readonly complete?: boolean;
  readonly exitcode?: number;
}

const fixture = join(import.meta.dirname, '../../fixtures/wandb-requests.json');
const real = (JSON.parse(readFileSync(fixture, 'utf8')) as { requests: readonly RealRequest[] }).requests;
let ours: readonly RecordedRequest[];
let directory: string;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-wandb-'));
  const metricsPath = join(directory, 'metrics.jsonl');
  // the records that the real client was given
  const records = [
    { iteration: 1, lm_loss: 4, learning_rate: 0.001 },
    { iteration: 2, lm_loss: 3, learning_rate: 0.001 },
    { type: 'validation', iteration: 2, lm_loss: 2.5 },
  ];
  writeFileSync(metricsPath, records.map((record) => `${JSON.stringify(record)}\n`).join(''));
  const server = await RecordingServer.start(wandbAnswer);
  const wandb = {
    id: 'abcd1234',
    project: 'gpt',
    name: 'tiny',
    baseUrl: server.url,
    rows: 0,
    isEnded: false,
  };
  writeTrackingState(directory, { wandb });
  await sendKeptMetrics({
    directory,
    metricsPath,
    run: { flags: { lr: 0.01 }, host: 'here', startedAt: 0 },
    outcome: 'finished',
    credentials: trackingCredentials({ WANDB_API_KEY: '0'.repeat(40) }),
    onMessage: () => {},
  });
  await server.close();
  ours = server.requests;
});
afterAll(() => rmSync(directory, { recursive: true }));

const nameType = (value: unknown): string =>
  value === null ? 'null' : typeof value === 'string' ? 'text' : typeof value;

it('creates a run as the client of wandb does', () => {
  const [theirs] = real;
  const { path, authorization, body } = ours[0]!;
  expect(path).toBe(theirs!.path);
  expect(authorization!.split(' ')[0]).toBe(theirs!.authorization);
  expect(Object.keys(body).sort()).toEqual(theirs!.keys);
  expect(body.operationName).toBe(theirs!.operation);
  // our requests have a subset of the client's fields, with values of the same types
  const input = Object.fromEntries(
    [...body.query.matchAll(/(\w+): \$(\w+)/g)].map(([, field, name]) => [field, name]),
  );
  expect(theirs!.input).toMatchObject(input);
  expect(Object.values(input).sort()).toEqual(Object.keys(body.variables).sort());
  for (const [name, value] of Object.entries(body.variables))
    expect([name, nameType(value)]).toEqual([name, theirs!.variables![name]]);
  expect(JSON.parse(body.variables.config)).toEqual(theirs!.config);
});

/** Returns the lines that posts to the stream write to each file, and how the posts end the run. */
function streamed(posts: readonly RealRequest[]) {
  const files: Record<string, Array<Readonly<Record<string, unknown>>>> = {};
  let end = {};
  for (const { files: some = {}, complete, exitcode } of posts) {
    for (const [name, { offset, content }] of Object.entries(some)) {
      files[name] ??= [];
      files[name].splice(offset, content.length, ...content);
    }
    if (complete !== undefined) end = { complete, exitcode };
  }
  return { files, end };
}

const dependsOnTime = ['_timestamp', '_runtime'];

it('streams history and summary as the client of wandb does', () => {
  const isStream = ({ path }: { readonly path: string }): boolean => path.endsWith('/file_stream');
  const posts = ours.filter(isStream);
  expect(new Set(posts.map(({ path }) => path))).toEqual(
    new Set(real.filter(isStream).map(({ path }) => path)),
  );
  const parsed = posts.map(({ path, authorization, body }) => ({
    ...body,
    path,
    authorization: authorization!,
    files: Object.fromEntries(
      Object.entries(body.files ?? {}).map(([name, file]) => {
        const { offset, content } = file as { offset: number; content: readonly string[] };
        const lines = content.map((line) =>
          JSON.parse(line, (key, value) => (dependsOnTime.includes(key) ? nameType(value) : value)),
        );
        return [name, { offset, content: lines }];
      }),
    ),
  }));
  expect(streamed(parsed)).toEqual(streamed(real.filter(isStream)));
});
