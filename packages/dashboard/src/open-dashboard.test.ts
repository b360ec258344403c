import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { OwnedDirectory } from '@mtl/checkpoint';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RunFolders, step, steps } from '../test/run-folders.js';
import type { RunsEvent } from './api-types.js';
import { type Dashboard, openDashboard } from './open-dashboard.js';

const folders = new RunFolders();
let dashboard: Dashboard;

beforeAll(async () => {
  folders.record('one', { flags: { lr: 0.01 } });
  folders.append('one', ...steps(1, 30), { type: 'validation', iteration: 30, lm_loss: 3 });
  folders.write('one', 'iter_0000030/shard.safetensors', 'x'.repeat(1000));
  folders.write(
    'one',
    'samples.jsonl',
    [
      '{"iteration":30,"text":"To be"}\n',
      '{"iteration":31,"text":"A sample:\\nTo be","label":"A sample","prompt":"To","completion":" be"}\n',
    ].join(''),
  );
  dashboard = await openDashboard({ directory: folders.path, port: 0, pollMs: 20 });
});
afterAll(async () => {
  await dashboard.close();
  folders.dispose();
});

interface Got {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** Sends a request that browsers cannot send: `fetch` would normalize paths and refuse some headers. */
function get(
  path: string,
  { url = dashboard.url, method = 'GET', host }: { url?: string; method?: string; host?: string } = {},
): Promise<Got> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const headers = { host: host ?? `${hostname}:${port}` };
    const sent = request({ hostname, port, path, method, headers }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body }));
    });
    sent.on('error', reject).end();
  });
}

/** Returns the events that a page receives from now on. */
function collectEvents({ url }: Dashboard): {
  readonly events: readonly RunsEvent[];
  readonly ended: Promise<void>;
} {
  const events: RunsEvent[] = [];
  const ended = new Promise<void>((resolve, reject) => {
    request(`${url}api/events`, (response) => {
      response.setEncoding('utf8').on('data', (text: string) => {
        for (const [, data] of text.matchAll(/^data: (.*)$/gm)) events.push(JSON.parse(data!));
      });
      response.on('close', resolve);
    })
      .on('error', reject)
      .end();
  });
  return { events, ended };
}

const json = async (path: string) => JSON.parse((await get(path)).body);

describe('what is served', () => {
  it('lists the runs', async () => {
    expect(await json('/api/runs')).toMatchObject({
      directory: folders.path,
      runs: [
        {
          id: 'one',
          state: 'finished',
          iteration: 30,
          trainIterations: 100,
          validationLoss: 3,
          worldSize: 1,
        },
      ],
    });
  });

  it('tells everything of a run', async () => {
    const details = await json('/api/runs/one');
    expect(details).toMatchObject({
      flags: { lr: 0.01 },
      conditions: { threads: 1, node: '20.19.0' },
      starts: [{ host: 'here', end: { reason: 'done', error: null } }],
      checkpoints: [{ iteration: 30, bytes: 1000 }],
      samples: [
        { iteration: 31, text: 'A sample:\nTo be', label: 'A sample', prompt: 'To', completion: ' be' },
        { iteration: 30, text: 'To be', label: null, prompt: null, completion: null },
      ],
      problems: [],
      traceRevision: null,
    });
    expect(details.series).toEqual(expect.arrayContaining(['lm_loss', 'grad_norm', 'validation.lm_loss']));
  });

  it('says that a validation loss has been rising for long', async () => {
    const losses = [2, 1, 1.1, 1.2, 1.3, 1.4, 1.5];
    const validation = losses.map((lm_loss, index) => ({
      type: 'validation',
      iteration: index + 1,
      lm_loss,
    }));
    folders.append('rising', ...validation);
    const { notes } = await json('/api/runs/rising');
    expect(notes).toEqual([expect.stringContaining('rising since step 2, from 1.0000 to 1.5000 at step 7')]);
    expect((await json('/api/runs/one')).notes).toEqual([]);
  });

  it('has curves, of the range and the points asked for', async () => {
    const { series } = await json('/api/runs/one/series?names=lm_loss,nothing&from=10&to=12');
    expect(Object.keys(series)).toEqual(['lm_loss']);
    expect(series.lm_loss.x).toEqual([9, 10, 11, 12, 13]);
    const few = await json('/api/runs/one/series?names=lm_loss&points=10&smoothing=0.9');
    expect(few.series.lm_loss.x.length).toBeLessThanOrEqual(10);
    expect(few.series.lm_loss.smoothed.x.length).toBeLessThanOrEqual(10);
  });

  it('names a record that cannot be read, and shows the curves all the same', async () => {
    folders.write('torn', 'run.json', '{"format":');
    folders.append('torn', ...steps(1, 3));
    const details = await json('/api/runs/torn');
    expect(details.problems).toEqual([expect.stringMatching(/^MTL_RUN_RECORD: .*\. What to do: move /s)]);
    expect(details.series).toContain('lm_loss');
  });

  it('says what to do after a failure, where the record has it', async () => {
    const end = { reason: 'failed', error: 'MTL_NOT_FINITE: loss NaN', remedy: 'lower --lr' };
    folders.record('advised', { ends: [{ reason: 'failed', error: 'an older one' }, end] });
    const { starts, directory } = await json('/api/runs/advised');
    expect(starts.map((start: { end: { remedy: unknown } }) => start.end.remedy)).toEqual([
      null,
      'lower --lr',
    ]);
    expect(directory).toBe(join(folders.path, 'advised'));
  });

  it('tells which runs run, and which were killed', async () => {
    folders.record('live', { ends: [undefined] });
    const live = async () =>
      (await json('/api/runs')).runs.find(({ id }: { id: string }) => id === 'live').state;
    const owned = await OwnedDirectory.own({ directory: join(folders.path, 'live') });
    expect(await live()).toBe('running');
    await owned.release();
    expect(await live()).toBe('failed');
  });

  it.each([
    ['/api/runs/none', 404, 'no run none'],
    ['/api/nothing', 404, 'there is no'],
    ['/api/runs/one/series', 400, 'names'],
    ['/api/runs/one/series?names=lm_loss&points=1', 400, 'points: 1'],
    ['/api/runs/one/series?names=lm_loss&axis=y', 400, 'axis'],
    ['/api/runs/one/series?names=lm_loss&from=x', 400, 'from: x'],
    ['/api/runs/one/trace', 404, 'no trace.json'],
    ['/api/runs/%', 400, 'not encoded'],
  ])('answers %s with %i', async (path, status, text) => {
    expect(await get(path)).toMatchObject({ status, body: expect.stringContaining(text) });
  });

  it('sends what changes, until the server ends', async () => {
    const served = await openDashboard({ directory: folders.path, port: 0, pollMs: 20 });
    const { events, ended } = collectEvents(served);
    await expect.poll(() => events[0]?.runs.map(({ id }) => id)).toContain('one');
    folders.record('new', { ends: [undefined] });
    folders.append('new', step(1), step(2));
    await expect
      .poll(() => events.flatMap(({ runs }) => runs).at(-1))
      .toMatchObject({ id: 'new', iteration: 2 });
    await served.close();
    await ended;
    await expect(fetch(served.url)).rejects.toThrow();
  });

  it('sends a page what the request of another page finds first', async () => {
    using watched = new RunFolders();
    watched.append('kept', step(1));
    watched.append('deleted', step(1));
    // the interval is so long that the stream does not poll during the test
    await using served = await openDashboard({ directory: watched.path, port: 0, pollMs: 60_000 });
    const { events } = collectEvents(served);
    await expect.poll(() => events).toMatchObject([{ runs: { length: 2 }, removed: [], isAll: true }]);
    watched.append('kept', step(2));
    rmSync(join(watched.path, 'deleted'), { recursive: true });
    const { body } = await get('/api/runs', { url: served.url });
    expect(JSON.parse(body).runs).toMatchObject([{ id: 'kept', iteration: 2 }]);
    await expect
      .poll(() => events.slice(1))
      .toMatchObject([{ runs: [{ id: 'kept', iteration: 2 }], removed: ['deleted'], isAll: false }]);
  });
});

describe('what is not served', () => {
  it('refuses names of other hosts, as a page has whose name was made to resolve here', async () => {
    for (const host of [
      'evil.example',
      `evil.example:${new URL(dashboard.url).port}`,
      '192.168.0.1',
      'localhost.evil.example',
    ]) {
      expect(await get('/api/runs', { host })).toMatchObject({
        status: 403,
        body: expect.stringContaining('Host'),
      });
    }
    for (const host of ['localhost', 'localhost:9999', '[::1]:80', '127.0.0.1']) {
      expect((await get('/api/runs', { host })).status).toBe(200);
    }
  });

  it('refuses several Host headers, even with a valid first header, and no Host header', async () => {
    const requestStatus = async (...headers: readonly string[]): Promise<string> => {
      const socket = connect(Number(new URL(dashboard.url).port), '127.0.0.1');
      socket.write(`${['GET /api/runs HTTP/1.1', ...headers, 'Connection: close'].join('\r\n')}\r\n\r\n`);
      let answer = '';
      for await (const part of socket.setEncoding('utf8')) answer += part;
      return answer.split('\r\n')[0]!;
    };
    expect(await requestStatus('Host: localhost')).toBe('HTTP/1.1 200 OK');
    const refused = 'HTTP/1.1 400 Bad Request';
    expect(await requestStatus('Host: localhost', 'Host: evil.example')).toBe(refused);
    expect(await requestStatus('Host: evil.example', 'host: localhost')).toBe(refused);
    expect(await requestStatus('Host: localhost', 'Accept: */*', 'HOST: localhost')).toBe(refused);
    expect(await requestStatus()).toBe(refused);
    // a header value that contains `host` must not count as a Host header
    expect(await requestStatus('Host: localhost', 'X-Name: host')).toBe('HTTP/1.1 200 OK');
  });

  it.each(['POST', 'PUT', 'DELETE', 'OPTIONS', 'HEAD'])('only reads: %s is refused', async (method) => {
    expect(await get('/api/runs', { method })).toMatchObject({ status: 405, headers: { allow: 'GET' } });
  });

  it('sends its policy with every answer, and lets no other origin read', async () => {
    for (const path of ['/', '/page.js', '/api/runs', '/nothing']) {
      const { headers } = await get(path);
      const policy = headers['content-security-policy'];
      expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
      expect(policy).not.toContain('unsafe');
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'cross-origin-resource-policy': 'same-origin',
      });
      expect(headers['access-control-allow-origin']).toBeUndefined();
    }
  });

  it('reads nothing outside of the directory: neither by paths nor by links', async () => {
    const outside = new RunFolders();
    outside.record('secret', { flags: { password: 'hidden' } });
    outside.append('secret', step(1, { lm_loss: 123.456 }));
    const secret = join(outside.path, 'secret');
    symlinkSync(secret, join(folders.path, 'link'));
    for (const file of ['run.json', 'metrics.jsonl']) {
      mkdirSync(join(folders.path, 'files'), { recursive: true });
      symlinkSync(join(secret, file), join(folders.path, 'files', file));
    }
    writeFileSync(join(outside.path, 'trace.json'), '{}');
    symlinkSync(join(outside.path, 'trace.json'), join(folders.path, 'one', 'trace.json'));
    const { runs } = await json('/api/runs');
    expect(runs.map(({ id }: { id: string }) => id)).not.toContain('link');
    const paths = [
      `/../${secret}/run.json`,
      `/api/runs/${encodeURIComponent(`../../${secret}`)}`,
      '/api/runs/..%2f..%2fetc',
      '/api/runs/link',
      '/api/runs/files',
      '/api/runs/files/series?names=lm_loss',
      '/api/runs/one/trace',
      `//${secret}`,
    ];
    for (const path of paths) {
      const { body } = await get(path);
      expect(body, path).not.toMatch(/hidden|123\.456/);
    }
    expect((await get('/api/runs/link')).status).toBe(404);
    expect((await get('/api/runs/one/trace')).status).toBe(404);
    outside.dispose();
  });
});

describe('where it is served', () => {
  it('asks for the token in the address on any address but loopback', async () => {
    const open = await openDashboard({ directory: folders.path, host: '0.0.0.0', port: 0 });
    try {
      const { pathname, port } = new URL(open.url);
      expect(pathname).toMatch(/^\/[\w-]{32}\/$/);
      const url = `http://127.0.0.1:${port}/`;
      for (const path of ['/', '/api/runs', '/wrong/api/runs', `/${'x'.repeat(32)}/`]) {
        expect(await get(path, { url })).toMatchObject({
          status: 403,
          body: expect.stringContaining('token'),
        });
      }
      expect((await get(`${pathname}api/runs`, { url })).status).toBe(200);
      expect((await get(`${pathname}api/runs`, { url, host: '10.0.0.7:1' })).status).toBe(200);
      expect((await get(`${pathname}api/runs`, { url, host: 'evil.example' })).status).toBe(403);
    } finally {
      await open.close();
    }
  });

  it('names a port that is taken, an address of another machine, and a directory that is missing', async () => {
    const port = Number(new URL(dashboard.url).port);
    const directory = folders.path;
    await expect(openDashboard({ directory, port })).rejects.toMatchObject({
      code: 'MTL_WATCH_PORT',
      remedy: expect.stringContaining('--port 0'),
    });
    await expect(openDashboard({ directory, port: 0, host: '192.0.2.1' })).rejects.toMatchObject({
      code: 'MTL_WATCH_HOST',
    });
    const missing = openDashboard({ directory: join(directory, 'nothing'), port: 0 });
    await expect(missing).rejects.toMatchObject({
      code: 'MTL_RUN_NONE',
      remedy: expect.stringContaining('mkdir'),
    });
  });
});
