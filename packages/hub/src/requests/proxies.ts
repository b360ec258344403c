import { ConfigurationError } from '@mtl/errors';

type Environment = Readonly<Record<string, string | undefined>>;

/** The proxies that environment variables name, in the form that undici's `EnvHttpProxyAgent` accepts. */
interface Proxies {
  readonly httpProxy: string;
  readonly httpsProxy: string;
  readonly noProxy: string;
}

/** The names of this host. Requests to them do not use a proxy. */
const ownHosts = ['localhost', '127.0.0.1', '[::1]'];
const protocols = ['http:', 'https:', 'socks5:'];

/**
 * Returns the proxies that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name; lower-case names take precedence.
 * Returns undefined if there is no proxy. If HTTPS_PROXY is not set, the proxy in HTTP_PROXY is also used for
 * https. Requests to this host do not use a proxy.
 *
 * @throws ConfigurationError MTL_PROXY
 */
export function readProxies(environment: Environment): Proxies | undefined {
  const httpProxy = readProxy(environment, 'HTTP_PROXY');
  const httpsProxy = readProxy(environment, 'HTTPS_PROXY');
  if (httpProxy === '' && httpsProxy === '') return undefined;
  const noProxy = (environment.no_proxy ?? environment.NO_PROXY ?? '').trim();
  return { httpProxy, httpsProxy, noProxy: noProxy === '*' ? '*' : [noProxy, ...ownHosts].join(',') };
}

/**
 * Returns the address of the proxy that a variable names, including the protocol; '' if the variable is not
 * set.
 */
function readProxy(environment: Environment, name: string): string {
  const from = spelling(environment, name);
  const given = environment[from]?.trim() ?? '';
  if (given === '') return '';
  // like curl and Python, accepts a host and port without a protocol
  const address = given.includes('://') ? given : `http://${given}`;
  if (URL.canParse(address) && isUsable(new URL(address))) return address;
  // the message does not show the address, which may contain a password
  throw new ConfigurationError('MTL_PROXY', `${from} is not the address of a proxy`, {
    expected:
      'http://HOST:PORT, or https:// or socks5:// in its place; in a user or password % is %25, @ is %40, ' +
      'and so are other special characters',
    remedy: `correct ${from}, or unset it where no proxy is needed`,
  });
}

/** Returns the spelling in which a variable is set. The lower-case name takes precedence. */
function spelling(environment: Environment, name: string): string {
  const lower = name.toLowerCase();
  return environment[lower] === undefined ? name : lower;
}

/** Returns true if undici, which decodes the user and the password, accepts the address. */
function isUsable({ protocol, username, password }: URL): boolean {
  try {
    decodeURIComponent(username);
    decodeURIComponent(password);
  } catch {
    return false;
  }
  return protocols.includes(protocol);
}

/**
 * A function with the interface of `fetch` that uses the proxies in the environment variables, if there are
 * any.
 */
export type SendRequest = typeof fetch;

/**
 * Functions that send requests, by the JSON of their proxies. They are shared between callers, because each
 * function keeps its connections open between requests.
 */
const senders = new Map<string, Promise<SendRequest>>();

/**
 * Returns a function that sends requests through the proxies that environment variables name (default: this
 * process's variables). If there is no proxy, the function is `fetch`.
 *
 * @throws the errors of `readProxies`
 */
export async function requestSender(environment: Environment = process.env): Promise<SendRequest> {
  const proxies = readProxies(environment);
  if (proxies === undefined) return fetch;
  const key = JSON.stringify(proxies);
  const opened = senders.get(key) ?? openSender(proxies);
  senders.set(key, opened);
  return await opened;
}

/**
 * Returns a note for the message about a failed request. It states the request's proxy, without the password,
 * and the variable that names the proxy. Empty if the request did not use a proxy.
 *
 * @param url the URL of the request
 */
export function proxyNote(url: string, environment: Environment = process.env): string {
  const proxies = readProxies(environment);
  if (proxies === undefined || isWithoutProxy(new URL(url), proxies.noProxy)) return '';
  const isHttps = new URL(url).protocol === 'https:' && proxies.httpsProxy !== '';
  const proxy = isHttps ? proxies.httpsProxy : proxies.httpProxy;
  if (proxy === '') return '';
  const variable = spelling(environment, isHttps ? 'HTTPS_PROXY' : 'HTTP_PROXY');
  return ` (by the proxy ${new URL(proxy).host} of ${variable}; NO_PROXY names hosts without one)`;
}

/**
 * Returns true if NO_PROXY contains the URL's host or a domain to which the host belongs. The rules are the
 * same as in undici's `EnvHttpProxyAgent`.
 */
function isWithoutProxy({ protocol, hostname, port }: URL, noProxy: string): boolean {
  if (noProxy === '*') return true;
  const portOfHost = port === '' ? (protocol === 'https:' ? '443' : '80') : port;
  return noProxy.split(/[,\s]/).some((entry) => {
    const [, name = entry, portOfEntry = portOfHost] = /^(.+):(\d+)$/.exec(entry) ?? [];
    const domain = name.replace(/^\*?\./, '').toLowerCase();
    return domain !== '' && portOfEntry === portOfHost && `.${hostname}`.endsWith(`.${domain}`);
  });
}

async function openSender(proxies: Proxies): Promise<SendRequest> {
  // Node's own `fetch` does not accept an agent from a different version of undici. Undici is loaded only
  // here, so that a program without a proxy does not spend time on loading it.
  const { EnvHttpProxyAgent, fetch: fetchOfUndici } = await import('undici');
  // tunnels are disabled for http, because proxies refuse tunnels to ports that are not https ports
  const dispatcher = new EnvHttpProxyAgent({ ...proxies, proxyTunnel: false });
  const send = (url: string | URL, init: object): unknown => fetchOfUndici(url, { ...init, dispatcher });
  // the cast is needed because undici declares its own types for the arguments and results of `fetch`
  return send as unknown as SendRequest;
}
