import { describe, expect, it } from 'vitest';
import { buildSchedule, formatScheduleCsv, parseScheduleCsv } from './schedules.js';

const read = (text: string) => parseScheduleCsv(text, { name: 'own.csv' });

describe('parseScheduleCsv', () => {
  it('reads what the format says', () => {
    expect(read('0F0,0B0\n1F0,1I0,1W0\n')).toEqual({
      name: 'own.csv',
      numMicroBatches: 1,
      placement: [0, 1],
      actions: [
        [
          { kind: 'F', chunk: 0, microBatch: 0 },
          { kind: 'B', chunk: 0, microBatch: 0 },
        ],
        [
          { kind: 'F', chunk: 1, microBatch: 0 },
          { kind: 'I', chunk: 1, microBatch: 0 },
          { kind: 'W', chunk: 1, microBatch: 0 },
        ],
      ],
    });
  });

  it('skips idle slots and blanks, takes both line ends and a last line without one', () => {
    const plain = read('0F0,0B0\n1F0,1B0\n');
    expect(read('0F0, ,,0B0\r\n,1F0 , 1B0')).toEqual(plain);
    expect(formatScheduleCsv(plain)).toBe('0F0,0B0\n1F0,1B0\n');
  });

  it.each([
    ['nothing', '', 'own.csv, line 1: no actions'],
    ['a line without actions', '0F0,0B0\n,,\n1F0,1B0\n', 'own.csv, line 2: no actions'],
    ['a blank line at the end', '0F0,0B0\n1F0,1B0\n\n', 'own.csv, line 3: no actions'],
    ['another letter', '0F0,0B0\n1F0,1X0\n', 'own.csv, line 2, cell 2: "1X0" is no action'],
    ['a small letter', '0f0,0B0\n', 'own.csv, line 1, cell 1: "0f0" is no action'],
    ['a negative number', '-1F0\n', 'own.csv, line 1, cell 1: "-1F0" is no action'],
    ['a leading zero', '0F00\n', 'own.csv, line 1, cell 1: "0F00" is no action'],
    ['a semicolon', '0F0;0B0\n', 'own.csv, line 1, cell 1: "0F0;0B0" is no action'],
    ['a number that is too long', '0F1234567890\n', 'own.csv, line 1, cell 1: "0F1234567890" is no action'],
    ['a chunk on two ranks', '0F0,0B0\n1F0,0B0,1B0\n', 'own.csv, line 2: chunk 0 already stands in line 1'],
    ['a chunk left out', '0F0,0B0\n2F0,2B0\n', 'own.csv: no rank has chunk 1'],
    ['an action missing', '0F0,0B0\n1F0\n', 'own.csv, line 2: rank 1 never runs backward of 1F0'],
    ['an action twice', '0F0,0B0\n1F0,1B0,1F0\n', 'own.csv, line 2: rank 1 runs 1F0 twice'],
    ['a wrong order', '0B0,0F0\n1F0,1B0\n', 'own.csv, line 1: rank 0 runs 0B0 before 0F0'],
    ['a deadlock', '0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n', 'own.csv, line 1: deadlock: rank 0 cannot run 0B0'],
    ['a micro-batch mistyped', '0F0,0B0\n1F0,1B999999999\n', 'own.csv: no rank has micro-batch 1'],
  ])('refuses %s', (_, text, message) => {
    expect(() => read(text)).toThrow(
      expect.objectContaining({ code: 'MTL_SCHEDULE_CSV', message: expect.stringContaining(message) }),
    );
  });

  it('says why communication is not written', () => {
    expect(() => read('0F0,0SEND_F0,0B0\n')).toThrow(
      expect.objectContaining({ remedy: expect.stringContaining('leave communication out') }),
    );
  });

  it('reads what formatScheduleCsv writes', () => {
    const schedule = buildSchedule('zb-v', { numStages: 3, numMicroBatches: 6 });
    expect(parseScheduleCsv(formatScheduleCsv(schedule), { name: 'zb-v' })).toEqual(schedule);
  });
});
