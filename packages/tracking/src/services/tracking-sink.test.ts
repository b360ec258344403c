import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '@mtl/tooling/until';
import { MetricsJsonlWriter, type RunOutcome } from '@mtl/trainer';
import { exampleStep } from '@mtl/trainer/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Answer,
  mlflowAnswer,
  type RecordedRequest,
  RecordingServer,
  wandbAnswer,
} from '../../test/support/recording-server.js';
import { type DeliveryResult, type DeliveryTimes, deliveryText } from './delivery.js';
import { openDeliveries, trackingCredentials } from './open-deliveries.js';
import { sendKeptMetrics } from './send-kept-metrics.js';
import type { TrackedRun, TrackingSettings } from './tracking-settings.js';
import { beginTracking, TrackingSink } from './tracking-sink.js';
import { readTrackingState } from './tracking-state.js';

const key = 'secretsecretsecretsecretsecretsecretsecr';
const credentials = trackingCredentials({ WANDB_API_KEY: ` ${key}\n`, MLFLOW_TRACKING_TOKEN: 'a-token' });
const times: DeliveryTimes = { interval: 5, keepAlive: 20, firstRetry: 5, lastRetry: 20 };
const run: TrackedRun = {
  flags: { lr: 0.01, 'data-path': ['a', 'b'], load: undefined },
  host: 'here',
  startedAt: 0,
};

let directory: string;
let metricsPath: string;
let server: RecordingServer;
let messages: string[];
const onMessage = (text: string): void => void messages.push(text);
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-tracking-'));
  metricsPath = join(directory, 'metrics.jsonl');
  messages = [];
  server = await RecordingServer.start((request) =>
    request.path.includes('/mlflow/') ? mlflowAnswer(request) : wandbAnswer(request),
  );
});
afterEach(async () => {
  await server.close();
  rmSync(directory, { recursive: true });
});

const openMetrics = (resumeIteration = 0): Promise<MetricsJsonlWriter> =>
  MetricsJsonlWriter.open({ path: metricsPath, resumeIteration, now: () => new Date(60_000) });

/** Writes a complete metrics.jsonl with the given steps, and an evaluation after the last step. */
async function writeSteps(iterations: readonly number[]): Promise<void> {
  const writer = await openMetrics();
  for (const iteration of iterations) writer.step(exampleStep(iteration));
  writer.validation({ iteration: iterations.at(-1)!, loss: 2 });
  writer.close();
}

const wandb = () => ({ project: 'gpt', name: 'tiny', baseUrl: server.url });
const mlflow = () => ({ trackingUri: server.url, experiment: 'An experiment', name: 'tiny' });

/** Sends rows in the same way as a sink's thread. */
async function deliver({ tracked = run, ...settings }: TrackingSettings & { tracked?: TrackedRun }) {
  const state = await beginTracking({ directory, metricsPath, settings });
  const options = { directory, metricsPath, state, credentials, times, onMessage };
  const { deliveries, giveUp } = openDeliveries({ ...options, run: tracked });
  const results = Promise.all(deliveries.map((delivery) => delivery.run()));
  const finish = async (outcome: RunOutcome): Promise<DeliveryResult> => {
    for (const delivery of deliveries) delivery.finish(outcome);
    return (await results)[0]!;
  };
  return { finish, giveUp };
}

const sendKept = (outcome: RunOutcome = 'finished') =>
  sendKeptMetrics({ directory, metricsPath, run, outcome, credentials, times, onMessage });

/** Returns the lines of wandb-history.jsonl in `requests`, each with the offset at which it is written. */
const readHistory = (requests: readonly RecordedRequest[]) =>
  requests.flatMap(({ body }) => {
    const { offset, content = [] } = body?.files?.['wandb-history.jsonl'] ?? {};
    return content.map((line: string, index: number) => ({ ...JSON.parse(line), offset: offset + index }));
  });

const bodiesAt = (end: string) =>
  server.requests.filter(({ path }) => path.endsWith(end)).map(({ body }) => body);

describe('TrackingSink', () => {
  const open = (options: { isWandbOffline: boolean; settings?: TrackingSettings; times?: DeliveryTimes }) =>
    TrackingSink.open({
      directory,
      metricsPath,
      credentials,
      run,
      times,
      onMessage,
      settings: { wandb: wandb() },
      ...options,
    });

  it('sends to wandb while the run trains: the run, a line of history for each step, the end', async () => {
    const writer = await openMetrics();
    const sink = await open({ isWandbOffline: false });
    for (const iteration of [1, 2]) writer.step(exampleStep(iteration));
    // the last step is not sent yet, because an evaluation may follow it
    await until(() => readHistory(server.requests).length === 1);
    writer.step(exampleStep(3));
    writer.validation({ iteration: 3, loss: 2 });
    const isEmpty = ({ body }: RecordedRequest): boolean => JSON.stringify(body) === '{}';
    await until(() => server.requests.some(isEmpty)); // a run without news is kept alive
    writer.close();
    const page = /^3 steps sent; http.*\/owner\/gpt\/runs\/[0-9a-f]{8}$/;
    expect(await sink.close('finished')).toEqual([['wandb', expect.stringMatching(page)]]);
    expect(await sink.close('finished')).toEqual([]);
    const [upsert] = server.requests;
    expect(upsert).toMatchObject({ method: 'POST', path: '/graphql' });
    expect(upsert!.authorization).toBe(`Basic ${Buffer.from(`api:${key}`).toString('base64')}`);
    expect(upsert!.body.variables).toMatchObject({ project: 'gpt', displayName: 'tiny', entity: null });
    expect(JSON.parse(upsert!.body.variables.config)).toEqual({
      lr: { value: 0.01 },
      'data-path': { value: ['a', 'b'] },
    });
    const history = readHistory(server.requests);
    expect(history.map(({ _step, offset }) => [_step, offset])).toEqual([
      [1, 0],
      [2, 1],
      [3, 2],
    ]);
    expect(history[2]).toMatchObject({
      'lm loss': 2,
      'lm loss validation': 2,
      'learning-rate': 1e-3,
      'iteration-time': 1,
      _timestamp: 60,
      _runtime: 60,
      'samples vs steps': 48,
    });
    expect(server.requests.at(-1)!.body).toEqual({ complete: true, exitcode: 0 });
    expect(messages).toEqual([]);
  });

  it('sends nothing in WANDB_MODE=offline', async () => {
    const sink = await open({ isWandbOffline: true });
    await writeSteps([1]);
    expect(await sink.close('finished')).toEqual([
      ['wandb', `0 steps sent, 1 kept: mtl runs send ${directory}`],
    ]);
    expect(server.requests).toEqual([]);
    await sendKept('failed');
    expect(server.requests.at(-1)!.body).toEqual({ complete: true, exitcode: 1 });
  });

  it.each([
    ['hangs', (): Answer => ({ hangs: true })],
    ['closes connections', (): Answer => ({ closes: true })],
    ['answers 500', (): Answer => ({ status: 500 })],
  ])(
    'holds up the end of a run for two seconds at most where a service %s, and says so',
    async (_, answer) => {
      server.answer = answer;
      await writeSteps([1, 2]);
      const settings = { wandb: wandb(), mlflow: mlflow() };
      // the end of the run waits while services try again a few times, but not a hundred times
      const patient = { ...times, lastRetry: 500 };
      const sink = await open({ isWandbOffline: false, settings, times: patient });
      await until(() => server.requests.length >= 2);
      const start = performance.now();
      const rows = await sink.close('finished');
      // the end of the run waits two seconds; the rest is a margin for a busy machine
      expect(performance.now() - start).toBeLessThan(4000);
      const text = new RegExp(`^0 steps sent, 2 kept \\(.+\\): mtl runs send ${directory}$`);
      expect(rows).toEqual([
        ['wandb', expect.stringMatching(text)],
        ['MLflow', expect.stringMatching(text)],
      ]);
    },
  );

  it('says that a service does not know how the run ended', async () => {
    server.answer = (request) => (request.body?.complete === true ? { hangs: true } : wandbAnswer(request));
    await writeSteps([1, 2]);
    const sink = await open({ isWandbOffline: false });
    await until(() => readHistory(server.requests).length >= 1);
    const [[, text]] = (await sink.close('finished')) as [[string, string]];
    expect(text).toMatch(/^2 steps sent, not that the run ended \(.+\): mtl runs send /);
    server.answer = wandbAnswer;
    expect(await sendKept()).toMatchObject([{ sent: 2, kept: 0, isEnded: true }]);
  });

  it('is a new run in another project, and refuses a tracking.json that it did not write', async () => {
    const readState = async (settings: TrackingSettings) => {
      await (await open({ isWandbOffline: true, settings })).close('finished');
      return readTrackingState(directory)!.wandb!;
    };
    const { id } = await readState({ wandb: wandb() });
    expect((await readState({ wandb: wandb() })).id).toBe(id);
    const other = await readState({ wandb: { ...wandb(), project: 'other' } });
    expect(other).toMatchObject({ project: 'other', rows: 0 });
    expect(other.id).not.toBe(id);
    for (const content of ['{', '{"format":"mtl-tracking","version":1,"wandb":{"id":3}}']) {
      writeFileSync(join(directory, 'tracking.json'), content);
      await expect(readState({})).rejects.toMatchObject({ code: 'MTL_TRACKING_STATE' });
    }
  });
});

describe('openDeliveries', () => {
  it('goes on with the run of the folder, from the row at which the run was resumed', async () => {
    await writeSteps([1, 2, 3]);
    await (await deliver({ wandb: wandb() })).finish('stopped');
    const numBefore = server.requests.length;
    const writer = await openMetrics(2);
    const { finish } = await deliver({ wandb: wandb() });
    for (const iteration of [3, 4]) writer.step(exampleStep(iteration));
    writer.close();
    await finish('failed');
    const after = server.requests.slice(numBefore);
    expect(after[0]!.body.variables.name).toBe(server.requests[0]!.body.variables.name);
    expect(readHistory(after).map(({ _step, offset }) => [_step, offset])).toEqual([
      [3, 2],
      [4, 3],
    ]);
    expect(after.at(-1)!.body).toEqual({ complete: true, exitcode: 1 });
  });

  it('tells MLflow by its REST interface, in requests of at most 1000 metrics and 100 parameters', async () => {
    const iterations = Array.from({ length: 120 }, (_, index) => index + 1);
    await writeSteps(iterations);
    const flags = Object.fromEntries(iterations.map((n) => [`flag-${n}`, n]));
    const tracked = { ...run, flags };
    const result = await (await deliver({ mlflow: mlflow(), tracked })).finish('finished');
    expect(deliveryText(result, directory)).toBe(
      `120 steps sent; ${server.url}/#/experiments/7/runs/run-of-mlflow`,
    );
    expect(server.requests.every(({ authorization }) => authorization === 'Bearer a-token')).toBe(true);
    expect(server.requests[0]!.path).toBe(
      '/api/2.0/mlflow/experiments/get-by-name?experiment_name=An%20experiment',
    );
    expect(bodiesAt('/experiments/create')).toEqual([{ name: 'An experiment' }]);
    const tags = [{ key: 'host', value: 'here' }];
    expect(bodiesAt('/runs/create')).toEqual([{ experiment_id: '7', run_name: 'tiny', start_time: 0, tags }]);
    const batches = bodiesAt('/runs/log-batch');
    expect(batches.every(({ run_id }) => run_id === 'run-of-mlflow')).toBe(true);
    expect(batches.flatMap(({ params }) => params?.length ?? [])).toEqual([100, 20]);
    expect(batches[0].params[0]).toEqual({ key: 'flag-1', value: '1' });
    const metrics = batches.flatMap((batch) => batch.metrics ?? []);
    expect(Math.max(...batches.map((batch) => batch.metrics?.length ?? 0))).toBeLessThanOrEqual(1000);
    const losses = metrics.filter((metric) => metric.key === 'lm loss');
    expect(losses.map(({ step }) => step)).toEqual(iterations);
    expect(losses[0]).toEqual({ key: 'lm loss', value: 4, timestamp: 60_000, step: 1 });
    const end = { run_id: 'run-of-mlflow', status: 'FINISHED', end_time: expect.any(Number) };
    expect(bodiesAt('/runs/update')).toEqual([end]);
    // a resumed run continues the same run at the service
    await (await deliver({ mlflow: mlflow() })).finish('finished');
    expect(bodiesAt('/runs/create')).toHaveLength(1);
    expect(bodiesAt('/runs/update')[1]).toEqual({ run_id: 'run-of-mlflow', status: 'RUNNING' });
  });

  it('waits for a service that is away, and sends what it kept', async () => {
    const { answer } = server;
    server.answer = () => ({ status: 503 });
    await writeSteps([1, 2]);
    const { finish } = await deliver({ wandb: wandb() });
    await until(() => server.requests.length >= 3);
    server.answer = answer;
    expect(await finish('finished')).toMatchObject({ sent: 2, kept: 0, problem: undefined });
    expect(messages).toEqual([
      expect.stringMatching(/^wandb cannot be reached: HTTP 503/),
      expect.stringMatching(/^wandb is back/),
    ]);
  });

  it('gives up a service that does not answer', async () => {
    const { url } = server;
    await server.close();
    await writeSteps([1, 2]);
    const { finish, giveUp } = await deliver({ wandb: { project: 'gpt', name: 'tiny', baseUrl: url } });
    await until(() => messages.length === 1);
    giveUp();
    expect(await finish('finished')).toMatchObject({ sent: 0, kept: 2 });
    expect(messages[0]).toMatch(/^wandb cannot be reached: fetch failed: .*ECONNREFUSED/);
  });

  it('shows an answer without the characters that would steer a terminal', async () => {
    const message = '\u001b[31mno\u0007 run\u001b]0;title\u0007 \u202ehere\u009b2J';
    for (const answer of [{ status: 401, body: { message } }, { body: { errors: [{ message }] } }]) {
      server.answer = () => answer;
      await writeSteps([1]);
      const { problem } = await (await deliver({ wandb: wandb() })).finish('finished');
      expect(problem).toMatch(/no +run .*title +here/);
      expect(problem).not.toMatch(/[\p{Cc}\u202e]/u);
    }
  });

  it('keeps what a service does not take, says why without the key, and sends it later', async () => {
    server.answer = () => ({ status: 401, body: { errors: [{ message: `no user has ${key}` }] } });
    await writeSteps([1, 2]);
    const result = await (await deliver({ wandb: wandb() })).finish('finished');
    expect(deliveryText(result, directory)).toBe(
      `0 steps sent, 2 kept (HTTP 401 Unauthorized no user has ***): mtl runs send ${directory}`,
    );
    server.answer = wandbAnswer;
    expect(await sendKept()).toMatchObject([{ title: 'wandb', sent: 2, kept: 0, problem: undefined }]);
    expect(readHistory(server.requests).map(({ _step }) => _step)).toEqual([1, 2]);
    const { length } = server.requests;
    expect(await sendKept()).toMatchObject([{ sent: 2, kept: 0 }]);
    expect(server.requests).toHaveLength(length);
    // steps that were trained without the service
    const writer = await openMetrics(2);
    writer.step(exampleStep(3));
    writer.close();
    expect(await sendKept()).toMatchObject([{ sent: 3, kept: 0 }]);
    expect(readHistory(server.requests).at(-1)).toMatchObject({ _step: 3, offset: 2 });
    expect(readFileSync(join(directory, 'tracking.json'), 'utf8')).not.toContain(key);
  });
});

describe('sendKeptMetrics', () => {
  it('refuses a run that reported to no service, and one without a key', async () => {
    await expect(sendKept()).rejects.toMatchObject({ code: 'MTL_TRACKING_NONE' });
    await beginTracking({ directory, metricsPath, settings: { wandb: wandb() } });
    const withoutKey = trackingCredentials({ WANDB_API_KEY: ' ' });
    const sent = sendKeptMetrics({
      directory,
      metricsPath,
      run,
      times,
      onMessage,
      outcome: 'finished',
      credentials: withoutKey,
    });
    await expect(sent).rejects.toMatchObject({ code: 'MTL_WANDB_API_KEY' });
  });
});
