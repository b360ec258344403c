import { spawnSync } from 'node:child_process';

const socketInterface = 'mtl0';
let numCreated = 0;
const formatAddress = (host) => `10.77.0.${host + 1}`;
function ip(...args) {
  const { status, stderr, error } = spawnSync('ip', args, { encoding: 'utf8' });
  return status === 0 ? undefined : `ip ${args.join(' ')}: ${error?.message ?? stderr.trim()}`;
}
function must(problem) {
  if (problem !== undefined) throw new Error(problem);
}
/**
 * Returns the reason why this machine cannot simulate two hosts; undefined if it can.
 *
 * @returns {string | undefined}
 */
export function networkHostsProblem() {
  const name = `mtl-probe-${process.pid}`;
  return ip('netns', 'add', name) ?? ip('netns', 'delete', name);
}
/**
 * Waits until the kernel reports that the host's interface is up. A new interface is up only after a moment,
 * and programs cannot use it before.
 */
function waitUntilUp(name) {
  const deadline = Date.now() + 10_000;
  for (;;) {
    const { stdout } = spawnSync('ip', ['-n', name, 'link', 'show', socketInterface], { encoding: 'utf8' });
    if (stdout.includes('state UP')) return;
    if (Date.now() > deadline) throw new Error(`${socketInterface} does not come up: ${stdout}`);
  }
}
/**
 * Two hosts on one machine: network namespaces joined by a virtual cable.
 *
 * @typedef {object} NetworkHosts
 * @property {(host: number) => readonly string[]} choosePrefix returns the words to put before a command, so
 * that
 *   it runs on host 0 or 1
 * @property {(host: number) => string} formatAddress returns the address of host 0 or 1
 * @property {string} socketInterface the name of the interface on both hosts
 * @property {() => void} cut disconnects the cable, so that packets are lost without an error
 * @property {() => void} remove
 */

/**
 * Makes two hosts, which needs root and iproute2. The names of the hosts are unique to this process. At the
 * end of the process, remaining hosts are removed.
 *
 * @returns {NetworkHosts}
 */
export function createNetworkHosts() {
  const names = ['a', 'b'].map((letter) => `mtl-${process.pid}-${numCreated}-${letter}`);
  numCreated += 1;
  const [first, second] = names;
  const remove = () => {
    process.removeListener('exit', remove);
    for (const name of names) ip('netns', 'delete', name);
  };
  process.on('exit', remove);
  try {
    for (const name of names) must(ip('netns', 'add', name));
    const peer = ['peer', 'name', socketInterface, 'netns', second];
    must(ip('-n', first, 'link', 'add', socketInterface, 'type', 'veth', ...peer));
    for (const [index, name] of names.entries()) {
      must(ip('-n', name, 'address', 'add', `${formatAddress(index)}/24`, 'dev', socketInterface));
      for (const each of ['lo', socketInterface]) must(ip('-n', name, 'link', 'set', each, 'up'));
    }
    for (const name of names) waitUntilUp(name);
  } catch (error) {
    remove();
    throw error;
  }
  return {
    choosePrefix: (host) => ['ip', 'netns', 'exec', names[host]],
    formatAddress,
    socketInterface,
    cut: () => must(ip('-n', second, 'link', 'set', socketInterface, 'down')),
    remove,
  };
}
