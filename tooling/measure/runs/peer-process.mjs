import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/**
 * The PyTorch process in a comparison. It answers each JSON line with a JSON line. The first line that it
 * writes contains its versions. MTL_PEER_PYTHON names the Python executable (default: python3).
 */
export class PeerProcess {
  #child;
  #answers;

  constructor(script) {
    this.#child = spawn(process.env.MTL_PEER_PYTHON ?? 'python3', [script], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#answers = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    this.#child.on('error', () => {}); // no such program: there will be no answers
  }

  /** Returns the versions of the installed libraries; undefined if torch or transformers is not installed. */
  async versions() {
    const { value, done } = await this.#answers.next();
    return done ? undefined : JSON.parse(value);
  }

  async next() {
    const { value, done } = await this.#answers.next();
    if (done) throw new Error('the other side ended before its answer');
    return JSON.parse(value);
  }

  ask(command) {
    this.#child.stdin.write(`${JSON.stringify(command)}\n`);
    return this.next();
  }

  close() {
    this.#child.stdin.end();
  }
}
