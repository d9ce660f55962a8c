/* The seat by the arbitration block alone (LUNs without reservations): mdc/seat/seat.cc as a model.
 *
 * Hosts look, claim, beat, stop for any time between any two steps, die, and begin anew; a write may
 * be lost, or its outcome be unknown. Time is a number of ticks, which may pass at any moment.
 *
 * Safety: at no time do two hosts believe that they hold the seat. (That what a holder *writes*, and
 * be it that it gives the seat up, lands within the margin after its last look at the clock is the
 * assumption that docs/failover.md states. Of beats and claims nothing is assumed.)
 * Progress (-DPROMPT: no time passes while somebody can do something): somebody holds it, again and
 * again, for as long as some host lives and has claims left.
 */
#ifndef N
#define N 2         /* hosts */
#endif
#define SEAT 3      /* ticks: the term */
#define MARGIN 1
#define CLAIM_WRITE 1
#ifndef CLAIM_WAIT
#define CLAIM_WAIT 2
#endif
#define AFTER (SEAT + MARGIN)
#ifndef EPOCHS
#define EPOCHS 3    /* claims, of all hosts together, that are looked at */
#endif
#define FREE 255

byte owner = FREE;  /* the block */
byte epoch = 0;
bool changed[N];    /* since the host's last look */

byte left[N];       /* of its term: it holds the seat while this is not 0 */
byte since[N];      /* ticks since the look after which nothing changed */
byte claiming[N];   /* ticks since its claim began */
byte sent[N];       /* ticks since the write under way was sent */
byte waited[N];
bool dead[N];

inline put(who, what_owner, what_epoch) {
  owner = what_owner; epoch = what_epoch;
  for (i : 0 .. N - 1) { if :: i != who -> changed[i] = true :: else fi }
}

inline hold(who) {  /* its term counts from before the write */
  left[who] = SEAT - sent[who];
  sent[who] = SEAT;
  for (i : 0 .. N - 1) { assert(i == who || left[i] == 0 || left[who] == 0) }
}

active proctype time() {
  byte i;
  do
#ifdef PROMPT
  :: timeout -> atomic {
#else
  :: atomic {
#endif
    i = 0;
    do
    :: i < N ->
      if :: left[i] > 0 -> left[i]-- :: else fi;
      /* Each stops where more makes no difference, and stays there while it is not used. */
      if :: since[i] < AFTER -> since[i]++ :: else fi;
      if :: claiming[i] <= CLAIM_WRITE -> claiming[i]++ :: else fi;
      if :: sent[i] < SEAT -> sent[i]++ :: else fi;
      if :: waited[i] < CLAIM_WAIT -> waited[i]++ :: else fi;
      i++
    :: else -> break
    od }
  od
}

active [N] proctype host() {
  byte me = _pid - 1, i, mine, seen_epoch;
  bool expired, again, free;
  changed[me] = true;

standby:
  atomic {
    claiming[me] = CLAIM_WRITE + 1; sent[me] = SEAT; waited[me] = CLAIM_WAIT;
    since[me] = 0; changed[me] = true; mine = 0
  }
  do
  :: since[me] >= AFTER || changed[me] ->
    expired = since[me] >= AFTER;               /* the look begins */
    atomic {
      again = !changed[me]; changed[me] = false;
      seen_epoch = epoch; free = (owner == FREE)
    }
    if                                          /* and ends */
    :: again -> skip
    :: else -> since[me] = 0; expired = false
    fi;
    if :: (expired || free) && seen_epoch < EPOCHS -> break :: seen_epoch >= EPOCHS -> goto end
    :: else fi
  od;

  claiming[me] = 0;
  if :: changed[me] -> goto standby :: else fi; /* somebody was faster */
  mine = seen_epoch + 1;
  sent[me] = 0;
  if
  :: atomic { put(me, me, mine) }
#ifndef PROMPT
  :: atomic { put(me, me, mine) }; goto standby /* done, but it is not told so */
  :: goto standby
#endif
  fi;
  if :: claiming[me] > CLAIM_WRITE -> goto standby :: else fi;
  atomic { claiming[me] = CLAIM_WRITE + 1; waited[me] = 0 }
  waited[me] >= CLAIM_WAIT;
  if :: atomic { owner == me && epoch == mine -> hold(me) }
     :: atomic { else -> goto standby }
  fi;

holding:
  atomic { since[me] = AFTER; seen_epoch = 0; expired = false; again = false; free = false };
  do
  :: atomic { left[me] == 0 -> goto standby }   /* it ends, and begins anew */
  :: atomic { left[me] > 0 && left[me] < SEAT ->
       if :: epoch > mine || (epoch == mine && owner != me) -> left[me] = 0; goto standby
       :: else fi };
    atomic { if :: left[me] == 0 -> goto standby :: else -> sent[me] = 0 fi };
    if                                          /* and here it may stand still */
    :: atomic { put(me, me, mine) };
       atomic { if :: left[me] == 0 -> goto standby :: else -> hold(me) fi }
#ifndef PROMPT
    :: atomic { put(me, me, mine) }             /* done, but it is not told so */
    :: skip
#endif
    fi
  :: atomic { left[me] > 0 -> left[me] = 0; sent[me] = 0 };
    /* It is given up within the margin after the last look at the clock, as all that it writes. */
    if :: atomic { sent[me] < MARGIN -> put(me, FREE, mine) } :: skip fi;
    goto standby
  :: atomic { left[me] = 0; dead[me] = true }; goto end
  od;
end: skip
}

#define SOMEBODY (left[0] > 0 || left[1] > 0)
#define OVER (epoch >= EPOCHS || (dead[0] && dead[1]))
ltl progress { [] <> (SOMEBODY || OVER) }
