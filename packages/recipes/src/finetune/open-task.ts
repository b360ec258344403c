import { glueTasks } from '@mtl/data';
import type { BertTask } from '@mtl/models';
import type { FineTuningTaskName } from './fine-tuning-configuration.js';
import type { OpenTaskOptions } from './open-task-options.js';
import { openRaceTask } from './race-task.js';
import { openSentencePairTask } from './sentence-pair-task.js';
import { openSquadTask } from './squad-task.js';
import type { OpenedTask } from './task-set.js';

interface TaskKind {
  readonly bertTask: BertTask;
  /** Tokens of a sequence unless a flag says otherwise. */
  readonly sequenceLength: number;
  readonly open: (options: OpenTaskOptions) => OpenedTask;
}

const classes = (numClasses: number): BertTask => ({ kind: 'classification', numClasses });

/** What there is to know of a task before its files are read. */
export const fineTuningTasks: Readonly<Record<FineTuningTaskName, TaskKind>> = {
  mnli: {
    bertTask: classes(glueTasks.MNLI.labels.length),
    sequenceLength: 128,
    open: (options) => openSentencePairTask('MNLI', options),
  },
  qqp: {
    bertTask: classes(glueTasks.QQP.labels.length),
    sequenceLength: 128,
    open: (options) => openSentencePairTask('QQP', options),
  },
  race: { bertTask: { kind: 'multiple-choice' }, sequenceLength: 512, open: openRaceTask },
  squad: { bertTask: { kind: 'span' }, sequenceLength: 384, open: openSquadTask },
};
