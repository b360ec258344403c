import { constants } from 'node:os';
import { MtlError } from '@mtl/errors';

/** A command that a signal stopped before its end, and that left nothing half done. */
export class Interruption extends MtlError {
  override readonly name = 'Interruption';
  /** 128 plus the signal's number: what shells expect of a process that a signal ended. */
  readonly exitStatus: number;

  constructor(signal: NodeJS.Signals) {
    super('MTL_INTERRUPTED', `stopped by ${signal}; what was being written has been removed`, {
      remedy: 'run the command again: it starts from the beginning',
    });
    this.exitStatus = 128 + constants.signals[signal];
  }
}
