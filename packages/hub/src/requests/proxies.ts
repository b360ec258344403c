import { ConfigurationError } from '@mtl/errors';

type Environment = Readonly<Record<string, string | undefined>>;

/** The proxies of an environment, in the form that undici's `EnvHttpProxyAgent` takes. */
interface Proxies {
  readonly httpProxy: string;
  readonly httpsProxy: string;
  readonly noProxy: string;
}

/** Names of this host: requests to them stay on the host, so they use no proxy. */
const ownHosts = ['localhost', '127.0.0.1', '[::1]'];
const protocols = ['http:', 'https:', 'socks5:'];

/**
 * Returns the proxies that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name, lower-case names first; undefined if
 * there is no proxy. Without HTTPS_PROXY the proxy of HTTP_PROXY serves https, too; requests to this host use
 * no proxy.
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

/** Returns the address of a proxy, with its protocol; '' if the variable is not set. */
function readProxy(environment: Environment, name: string): string {
  const from = spelling(environment, name);
  const given = environment[from]?.trim() ?? '';
  if (given === '') return '';
  // a host with a port but without a protocol, which curl and Python accept
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

/** Returns the name under which a variable is set; the lower-case name comes first. */
function spelling(environment: Environment, name: string): string {
  const lower = name.toLowerCase();
  return environment[lower] === undefined ? name : lower;
}

/** Returns whether undici, which decodes user and password, accepts the address. */
function isUsable({ protocol, username, password }: URL): boolean {
  try {
    decodeURIComponent(username);
    decodeURIComponent(password);
  } catch {
    return false;
  }
  return protocols.includes(protocol);
}

/** `fetch`, through the proxies of an environment where it names some. */
export type SendRequest = typeof fetch;

/**
 * Functions that send requests, by their proxies. They are shared, since each keeps connections open between
 * requests.
 */
const senders = new Map<string, Promise<SendRequest>>();

/**
 * Returns a function that sends requests through the proxies of an environment, by default that of the
 * process; without a proxy, this is `fetch`.
 *
 * @throws as `readProxies`
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
 * Returns a text with the proxy that a request went through and the proxy's variable, for the message of a
 * failed request. The text omits the password, and is empty without a proxy.
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
 * Returns whether NO_PROXY names a host, or a domain that contains it, as undici's `EnvHttpProxyAgent` reads
 * it.
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
  // Node's own `fetch` accepts no agent from another version of undici. Undici is loaded only here, so that
  // it costs runs without a proxy nothing
  const { EnvHttpProxyAgent, fetch: fetchOfUndici } = await import('undici');
  // proxies refuse tunnels to ports other than the https ports
  const dispatcher = new EnvHttpProxyAgent({ ...proxies, proxyTunnel: false });
  const send = (url: string | URL, init: object): unknown => fetchOfUndici(url, { ...init, dispatcher });
  // undici declares types of its own for what Node's `fetch` takes and returns
  return send as unknown as SendRequest;
}
