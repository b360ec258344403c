import type { FineTuningTaskName } from '@mtl/configuration';
import { glueTasks } from '@mtl/data/tasks';
import type { BertTask } from '@mtl/models';
import { type OpenTaskOptions, setName } from './open-task-options.js';
import { openRaceTask, raceSetName } from './race-task.js';
import { openSentencePairTask } from './sentence-pair-task.js';
import { openSquadTask } from './squad-task.js';
import type { OpenedTask } from './task-set.js';

interface TaskKind {
  readonly bertTask: BertTask;
  /** What its files call the classes, in order; of a classification. */
  readonly labels?: readonly string[];
  /** Tokens of a sequence unless a flag gives another number. */
  readonly sequenceLength: number;
  /** What a set is called after its file or folder. */
  readonly setName: (path: string) => string;
  readonly open: (options: OpenTaskOptions) => OpenedTask;
}

const classes = (numClasses: number): BertTask => ({ kind: 'classification', numClasses });

/** What there is to know of a task before its files are read. */
export const fineTuningTasks: Readonly<Record<FineTuningTaskName, TaskKind>> = {
  mnli: {
    bertTask: classes(glueTasks.MNLI.labels.length),
    labels: glueTasks.MNLI.labels,
    sequenceLength: 128,
    setName,
    open: (options) => openSentencePairTask('MNLI', options),
  },
  qqp: {
    bertTask: classes(glueTasks.QQP.labels.length),
    labels: glueTasks.QQP.labels,
    sequenceLength: 128,
    setName,
    open: (options) => openSentencePairTask('QQP', options),
  },
  race: {
    bertTask: { kind: 'multiple-choice' },
    sequenceLength: 512,
    setName: raceSetName,
    open: openRaceTask,
  },
  squad: { bertTask: { kind: 'span' }, sequenceLength: 384, setName, open: openSquadTask },
};
