import { createServer } from 'node:net';

/**
 * The first port and the number of ports to choose from. The range is below the ports that Linux assigns to
 * connections and to servers that request any port (32768 and above), so Linux does not assign a port in this
 * range between the check and the use of the port.
 */
const [first, count] = [12_000, 20_000];
/** The distance between the first ports that are tried by two processes with consecutive process ids. */
const stride = 61;

let next = process.pid * stride;

/**
 * Returns a port of the loopback interface on which no process listens. Each call returns a different port.
 *
 * @returns {Promise<number>}
 */
export async function freePort() {
  for (let tried = 0; tried < count; tried++) {
    const port = first + (next++ % count);
    if (await isFree(port)) return port;
  }
  throw new Error(`no port from ${first} to ${first + count - 1} is free`);
}

function isFree(port) {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', (error) => (error.code === 'EADDRINUSE' ? resolve(false) : reject(error)));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
