// Measures the time of an authenticated message to the store and its authenticated answer. A rank sends over
// the loopback interface. The store is a thread in the same process.
import assert from 'node:assert/strict';
import { NativeJob, NativeStore, StoreServer } from '@mtl/comm/launcher';

const secret = 'the secret of a benchmark';

function median(values: readonly number[]): number {
  return [...values].sort((left, right) => left - right)[Math.floor(values.length / 2)]!;
}

/** Returns the median time of `count` calls of `set` with `numBytes` bytes, in microseconds. */
function microsecondsOfSet(numBytes: number, count: number): number {
  const server = new StoreServer({ secret, worldSize: 1 });
  const job = new NativeJob(0);
  const options = { address: '127.0.0.1', ports: [server.port], secret, worldSize: 1, attempt: 0 };
  const store = new NativeStore({ job, ...options, timeoutMs: 10_000 });
  const value = new Uint8Array(numBytes).fill(7);
  const times: number[] = [];
  for (let index = 0; index < count; index++) {
    const started = performance.now();
    store.set(`key ${index}`, value);
    times.push(1000 * (performance.now() - started));
  }
  assert.deepEqual(Buffer.from(store.get(`key ${count - 1}`, 1000)), Buffer.from(value));
  store.close();
  job.close();
  server.close();
  return median(times);
}

/** Prints the times of `set` for a small value and for the largest value. */
export function printStoreRoundTrips(): void {
  const small = microsecondsOfSet(64, 2000);
  const large = microsecondsOfSet(1 << 20, 50);
  console.log(`store: a set of 64 bytes ${small.toFixed(0)} us, of 1 MiB ${(large / 1000).toFixed(1)} ms`);
}
