import type { PipelineSchedule } from '../schedules/pipeline-schedule.js';
import { planMessages } from './plan-messages.js';

/**
 * Returns the number of boundary tensors that are kept on each rank while each of its actions runs, besides
 * the one that the action uses itself: those whose receive has been posted and those that one chunk has made
 * for another one of the same rank.
 */
export function waitingTensors(schedule: PipelineSchedule): ReadonlyArray<readonly number[]> {
  return schedule.actions.map((_, rank) => {
    let [numTaken, numHere] = [0, 0];
    return planMessages(schedule, { rank }).actions.map(({ input, output, numReceives }) => {
      if (input !== undefined) {
        if (input.peer === undefined) numHere--;
        else numTaken++;
      }
      const waiting = numReceives - numTaken + numHere;
      if (output !== undefined && output.peer === undefined) numHere++;
      return waiting;
    });
  });
}
