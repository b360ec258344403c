import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readProxies } from '@mtl/hub/internal';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RecordingServer } from '../../test/support/recording-server.js';
import { requestJson } from './request-json.js';

/** The first line and the authorization header of each request that the proxy received. */
let asked: string[];
let proxy: Server;
let address: string;
beforeEach(async () => {
  asked = [];
  proxy = createServer((request, response) => {
    asked.push(
      `${request.method} ${request.url} ${request.headers.host} ${request.headers['proxy-authorization'] ?? '-'}`,
    );
    response.end(JSON.stringify({ answeredBy: 'proxy' }));
  });
  proxy.on('connect', (request, socket) => {
    asked.push(`${request.method} ${request.url} ${request.headers['proxy-authorization'] ?? '-'}`);
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  address = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'])
    vi.stubEnv(name, undefined);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  proxy.closeAllConnections();
  await new Promise((resolve) => proxy.close(resolve));
});

const request = (url: string, body?: unknown): Promise<unknown> =>
  requestJson({ url, body, authorization: 'Bearer secret', secrets: ['secret'] });

describe('requests to tracking services', () => {
  it.each(['HTTP_PROXY', 'http_proxy'])('go through the proxy of %s', async (name) => {
    vi.stubEnv(name, `http://user:word@${address}`);
    const basic = `Basic ${Buffer.from('user:word').toString('base64')}`;
    expect(await request('http://service.invalid/graphql', { a: 1 })).toEqual({ answeredBy: 'proxy' });
    expect(asked).toEqual([`POST http://service.invalid/graphql service.invalid ${basic}`]);
  });

  it.each(['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY'])(
    'of https ask the proxy of %s for a tunnel, and name it where it refuses',
    async (name) => {
      vi.stubEnv(name, `http://user:word@${address}`);
      const refusal = await request('https://service.invalid/').catch((error: Error) => error.message);
      expect(refusal).toContain('Proxy response (403)');
      expect(refusal).toContain(address);
      expect(refusal).not.toContain('word@');
      expect(asked).toEqual([expect.stringContaining('CONNECT service.invalid:443 Basic ')]);
    },
  );

  it.each(['NO_PROXY', 'no_proxy'])(
    'leave the proxy out for hosts of %s, and for this host',
    async (name) => {
      // a host without a port, a form that curl accepts
      vi.stubEnv('HTTP_PROXY', address);
      vi.stubEnv(name, 'other.invalid, .service.invalid');
      await expect(request('http://a.service.invalid/')).rejects.toThrow(/ENOTFOUND|EAI_AGAIN/);
      const service = await RecordingServer.start(() => ({ body: { answeredBy: 'service' } }));
      try {
        expect(await request(service.url)).toEqual({ answeredBy: 'service' });
      } finally {
        await service.close();
      }
      expect(asked).toEqual([]);
      expect(await request('http://service.other/')).toEqual({ answeredBy: 'proxy' });
    },
  );
});

describe('the error of a request', () => {
  const both = { HTTP_PROXY: true, https_proxy: true };
  it.each([
    ['http://service.invalid/', both, 'HTTP_PROXY'],
    ['https://service.invalid/', both, 'https_proxy'],
    ['https://service.invalid/', { HTTP_PROXY: true }, 'HTTP_PROXY'],
    ['http://service.invalid/', { HTTPS_PROXY: true }, undefined],
    ['http://localhost:1/', both, undefined],
    ['https://127.0.0.1:1/', both, undefined],
    ['http://[::1]:1/', both, undefined],
    ['http://service.invalid/', { ...both, NO_PROXY: '*' }, undefined],
    ['http://a.service.invalid/', { ...both, NO_PROXY: 'other, *.Service.invalid' }, undefined],
    ['http://aservice.invalid/', { ...both, NO_PROXY: 'service.invalid' }, 'HTTP_PROXY'],
    ['http://service.invalid/', { ...both, NO_PROXY: 'service.invalid:80' }, undefined],
    ['http://service.invalid:81/', { ...both, NO_PROXY: 'service.invalid:80' }, 'HTTP_PROXY'],
  ])('to %s with %j names the proxy of %s, if it went through one', async (url, given, variable) => {
    let numConnections = 0;
    proxy.on('connection', () => {
      numConnections += 1;
    });
    // this proxy rejects tunnels
    proxy.removeAllListeners('request').on('request', (_, response) => response.destroy());
    for (const [name, value] of Object.entries(given))
      vi.stubEnv(name, typeof value === 'string' ? value : `http://user:word@${address}`);
    const error = await request(url).catch(({ message }: Error) => message);
    expect(numConnections > 0).toBe(variable !== undefined);
    if (variable === undefined) expect(error).not.toMatch(/proxy/i);
    else expect(error).toContain(` (by the proxy ${address} of ${variable};`);
  });

  it('names no proxy where the end of the run ended it', async () => {
    vi.stubEnv('HTTP_PROXY', address);
    const options = { url: 'http://service.invalid/', authorization: undefined, secrets: [] };
    await expect(requestJson({ ...options, signal: AbortSignal.abort() })).rejects.toThrow(
      /^no answer before the run ended$/,
    );
  });
});

describe('readProxies', () => {
  it('refuses what is no address, and prints no password', () => {
    const of = (value: string) => () => readProxies({ HTTPS_PROXY: value });
    expect(readProxies({ HTTPS_PROXY: '', http_proxy: ' ' })).toBeUndefined();
    expect(readProxies({ HTTP_PROXY: 'a:1', NO_PROXY: '*' })).toMatchObject({
      httpProxy: 'http://a:1',
      noProxy: '*',
    });
    for (const value of [
      'ftp://user:word@host',
      'http://user:word@:port',
      'http://user:word100%@host:1',
      'http://us%er:word@host:1',
      'socks5://user:word%zz@host:1',
    ])
      expect(of(value)).toThrow(
        expect.objectContaining({
          code: 'MTL_PROXY',
          message: expect.not.stringContaining('word'),
          expected: expect.stringContaining('% is %25, @ is %40'),
        }),
      );
    expect(of('http://user:100%25%40@host:1')()).toMatchObject({
      httpsProxy: 'http://user:100%25%40@host:1',
    });
  });
});
