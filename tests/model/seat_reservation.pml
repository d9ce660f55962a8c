/* The seat by reservations: mdc/fence/fencer.cc and mdc/serve/takeover.cc as a model. No clock at all.
 *
 * A standby may think at any moment that the active controller is gone, rightly or not; every host
 * may stop for any time between any two steps, also between a look at its own seat and a write; what
 * a LUN has taken in may be executed much later, until a reset. LUN 0 is the seat LUN.
 *
 * Safety: nothing that an earlier controller sent is executed on any LUN once a later one serves.
 */
#define N 2         /* hosts; each begins anew as often as there are claims left */
#define LUNS 2
#define CLAIMS 3    /* keys 1 … CLAIMS, each used for one claim; 0 is none */

byte holder[LUNS];              /* the key that holds the reservation */
bool keys[LUNS * 8];            /* lun * 8 + key: registered */
bool queued[LUNS * 8];          /* taken in by the LUN, and not yet executed */
byte next_key = 0;
byte terms = 0;                 /* how often the seat LUN has changed hands */
byte term_of[8];                /* by key */
byte serving = 0;               /* the latest term that serves */

#define AT(lun, key) ((lun) * 8 + (key))

/* PREEMPT: only with a registered key, only of one that is there. */
inline preempt(lun, key, victim, done) {
  atomic {
    done = false;
    if
    :: keys[AT(lun, key)] && victim != 0 && keys[AT(lun, victim)] ->
      keys[AT(lun, victim)] = false;
      if :: holder[lun] == victim -> holder[lun] = key :: else fi;
      done = true
    :: else
    fi
  }
}

active [N] proctype host() {
  byte key, expected, lun, other;
  bool done;

standby:
  atomic { if :: next_key >= CLAIMS -> goto end :: else -> next_key++; key = next_key fi };
  expected = holder[0];                         /* what it has watched */
  keys[AT(0, key)] = true;
  /* The swap. Where nobody holds it, RESERVE, which one gets as well. */
  if
  :: expected == 0 ->
    atomic {
      if :: holder[0] == 0 && keys[AT(0, key)] ->
           holder[0] = key; terms++; term_of[key] = terms
         :: else -> goto lost
      fi
    }
  :: else ->
    atomic {
      preempt(0, key, expected, done);
      if :: done && holder[0] == key -> terms++; term_of[key] = terms
         :: else -> goto lost
      fi
    }
  fi;

  /* It has the seat. Everybody else off every LUN, then wait for what they had sent. */
  lun = 0;
  do
  :: lun < LUNS ->
    if :: keys[AT(0, key)] -> skip :: else -> goto lost fi;
    if :: lun > 0 -> keys[AT(lun, key)] = true :: else fi;
    if :: atomic { holder[lun] == 0 && keys[AT(lun, key)] -> holder[lun] = key } :: else fi;
    other = 1;
    do
    :: other <= CLAIMS ->
      if
      :: other != key && keys[AT(lun, other)] ->
        if :: term_of[other] > term_of[key] -> goto lost :: else fi;
        preempt(lun, key, other, done);
        if :: !keys[AT(lun, key)] -> goto lost :: else fi
      :: else
      fi;
      other++
    :: else -> break
    od;
    if :: holder[lun] != key -> goto lost :: else fi;
#ifndef NO_DRAIN
    atomic {                                    /* LOGICAL UNIT RESET */
      other = 1;
      do
      :: other <= CLAIMS -> queued[AT(lun, other)] = false; other++
      :: else -> break
      od
    }
#endif
    lun++
  :: else -> break
  od;
  atomic {
    if :: holder[0] == key && term_of[key] > serving -> serving = term_of[key]
       :: else -> goto lost
    fi
  };

  do
  :: lun = 0;
    if :: lun = 1 :: skip fi;
    /* Any time after its last look at anything: */
    atomic {
      if :: keys[AT(lun, key)] -> queued[AT(lun, key)] = true
         :: else -> goto lost                   /* RESERVATION CONFLICT */
      fi
    }
  :: goto standby                               /* dies, and begins anew */
  od;

lost:
  keys[AT(0, key)] = false;
  goto standby;
end: skip
}

/* The LUNs carry out what they have taken in, when they like. */
#define EXECUTE(lun, key) \
  :: atomic { queued[AT(lun, key)] -> queued[AT(lun, key)] = false; assert(term_of[key] >= serving) }
active proctype luns() {
end:
  do
  EXECUTE(0, 1) EXECUTE(0, 2) EXECUTE(0, 3)
  EXECUTE(1, 1) EXECUTE(1, 2) EXECUTE(1, 3)
  od
}
