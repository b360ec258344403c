import { spawnSync } from 'node:child_process';

/** Two hosts on one machine: network namespaces joined by a cable. Needs root and iproute2. */
export interface NetworkHosts {
  /** The command that runs a program on host 0 or 1, in its place. */
  readonly prefixOf: (host: number) => readonly string[];
  /** The name of the interface, on both. */
  readonly socketInterface: string;
  /** Takes the cable out: packets get lost, nobody is told. */
  readonly cut: () => void;
  readonly remove: () => void;
}

const socketInterface = 'mtl0';
let numCreated = 0;

function ip(...args: readonly string[]): string | undefined {
  const { status, stderr, error } = spawnSync('ip', args, { encoding: 'utf8' });
  return status === 0 ? undefined : `ip ${args.join(' ')}: ${error?.message ?? stderr.trim()}`;
}

function must(problem: string | undefined): void {
  if (problem !== undefined) throw new Error(problem);
}

/** Why this machine cannot play two hosts, or undefined. */
export function networkHostsProblem(): string | undefined {
  const name = `mtl-probe-${process.pid}`;
  return ip('netns', 'add', name) ?? ip('netns', 'delete', name);
}

/** The kernel says a moment later that a cable has two ends; before that, programs do not see the interface. */
function waitUntilUp(name: string): void {
  const deadline = Date.now() + 10_000;
  for (;;) {
    const { stdout } = spawnSync('ip', ['-n', name, 'link', 'show', socketInterface], { encoding: 'utf8' });
    if (stdout.includes('state UP')) return;
    if (Date.now() > deadline) throw new Error(`${socketInterface} does not come up: ${stdout}`);
  }
}

/** Names are unique to this process; what is not removed by hand goes with it. */
export function createNetworkHosts(): NetworkHosts {
  const names = ['a', 'b'].map((letter) => `mtl-${process.pid}-${numCreated}-${letter}`);
  numCreated += 1;
  const [first, second] = names as [string, string];
  const remove = (): void => {
    process.removeListener('exit', remove);
    for (const name of names) ip('netns', 'delete', name);
  };
  process.on('exit', remove);
  try {
    for (const name of names) must(ip('netns', 'add', name));
    const peer = ['peer', 'name', socketInterface, 'netns', second];
    must(ip('-n', first, 'link', 'add', socketInterface, 'type', 'veth', ...peer));
    for (const [index, name] of names.entries()) {
      must(ip('-n', name, 'address', 'add', `10.77.0.${index + 1}/24`, 'dev', socketInterface));
      for (const each of ['lo', socketInterface]) must(ip('-n', name, 'link', 'set', each, 'up'));
    }
    for (const name of names) waitUntilUp(name);
  } catch (error) {
    remove();
    throw error;
  }
  return {
    prefixOf: (host) => ['ip', 'netns', 'exec', names[host]!],
    socketInterface,
    cut: () => must(ip('-n', second, 'link', 'set', socketInterface, 'down')),
    remove,
  };
}
