import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** A program that reads lines and answers each line with numbers. */
export class Timer {
  constructor(command, args, env = {}) {
    this.process = spawn(command, args, {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, ...env },
    });
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }
  async readLine() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error(`${this.process.spawnfile} ended`);
    return value;
  }
  async ask(line) {
    this.process.stdin.write(`${line}\n`);
    return (await this.readLine()).split(' ').map(Number);
  }
  end() {
    this.process.stdin.end();
  }
}
