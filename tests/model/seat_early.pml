/* A seat that is taken within its holder's term, where LUNs have reservations: what a controller that
 * is watched promises, and what the one that fences it waits for (mdc/seat/seat.cc, Promise in
 * mdc/seat/held_seat.cc, AnswersOver in mdc/serve/takeover.cc) as a model. Of what is written to the
 * LUNs seat_reservation.pml tells.
 *
 * A standby may fence the holder at any moment, rightly or not; every host may stop for any time
 * between any two steps. Time is a number of ticks, which may pass at any moment.
 *
 * Safety: at no time do two hosts answer clients.
 */
#ifndef N
#define N 2         /* hosts */
#endif
#define ANSWER 2    /* ticks: since the sending of the last beat that was carried out */
#ifndef OVER
#define OVER (ANSWER + 1)
#endif
#ifndef CLAIMS
#define CLAIMS 4    /* of all hosts together */
#endif

byte holder = 0;    /* the key that holds the reservation of the seat LUN; none is used twice */
bool changed[N];    /* the block, since the host last read it */
byte claims = 0;

byte left[N];       /* it may answer while this is not 0 ... */
bool serving[N];    /* ... and it has recovered */
byte since[N];      /* ticks since the look after which nothing changed */
byte sent[N];       /* ticks since the beat under way was sent */

#define ANSWERS(who) (serving[who] && left[who] > 0)

inline put(who) {
  for (i : 0 .. N - 1) { if :: i != who -> changed[i] = true :: else fi }
}

inline believe(who) {
  left[who] = ANSWER - sent[who]; sent[who] = ANSWER;
  for (i : 0 .. N - 1) { assert(i == who || !ANSWERS(i) || !ANSWERS(who)) }
}

active proctype time() {
  byte i;
end:
  do
  :: atomic {
    i = 0;
    do
    :: i < N ->
      if :: left[i] > 0 -> left[i]-- :: else fi;
      /* Each stops where more makes no difference. */
      if :: since[i] < OVER -> since[i]++ :: else fi;
      if :: sent[i] < ANSWER -> sent[i]++ :: else fi;
      i++
    :: else -> break
    od }
  od
}

active [N] proctype host() {
  byte me = _pid - 1, i, key, expected;
  bool again, same;

standby:
  atomic {
    serving[me] = false; left[me] = 0; sent[me] = ANSWER; since[me] = 0; changed[me] = true;
    key = 0; same = false
  }
  do
  :: expected = holder;                         /* a look begins, */
     atomic { again = !changed[me]; changed[me] = false };
     if :: again :: else -> since[me] = 0 fi    /* and ends */
  :: !changed[me] || expected != 0 -> break     /* there is some sign */
  od;
  atomic { if :: claims >= CLAIMS -> goto end :: else -> claims++; key = claims fi };
  /* PREEMPT, of the key that was seen; or RESERVE. */
  atomic { if :: holder == expected -> holder = key :: else -> goto standby fi };
#ifdef NO_LOOK_BACK
  same = true;
#else
  atomic { same = !changed[me]; changed[me] = false };
#endif
  if :: same :: else -> since[me] = 0 fi;
  sent[me] = 0;
  atomic { if :: holder == key -> put(me) :: else -> goto standby fi };
  believe(me);
  since[me] >= OVER;
  atomic {                                      /* it recovers, and serves */
    serving[me] = true; expected = 0; again = false; same = false;
    for (i : 0 .. N - 1) { assert(i == me || !ANSWERS(i) || !ANSWERS(me)) }
  }
  do
  :: sent[me] = 0;
     if
     :: atomic { holder == key -> put(me) };
        atomic { believe(me) }                  /* and before that it may stand still */
     :: atomic { holder != key -> goto standby }    /* RESERVATION CONFLICT */
     :: skip                                    /* lost, or its outcome is not known */
     fi
  :: goto standby                               /* dies, and begins anew */
  od;
end: skip
}
