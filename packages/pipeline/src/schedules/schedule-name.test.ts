import { expectTypeOf, it } from 'vitest';
import { buildSchedule, type ScheduleName, type ScheduleNameOrOther } from '../schedules.js';

it('offers the names of schedules, and takes any other', () => {
  expectTypeOf(buildSchedule).parameter(0).toEqualTypeOf<ScheduleNameOrOther>();
  // the union must keep the individual names, so that editors complete them; the type `string` would absorb
  // the names
  expectTypeOf<Extract<ScheduleNameOrOther, ScheduleName>>().toEqualTypeOf<ScheduleName>();
  expectTypeOf<'own'>().toMatchTypeOf<ScheduleNameOrOther>();
});
